"""The cost of a table: 1, 10, 100 and 500 tables with a few changes each."""

from __future__ import annotations

from pathlib import Path

from ticdc_assets_tests.bench import child, ours, targets
from ticdc_assets_tests.bench.child import Outcome
from ticdc_assets_tests.bench.children import many_tables
from ticdc_assets_tests.bench.ground import BenchContext
from ticdc_assets_tests.bench.measures.loads import JSON
from ticdc_assets_tests.bench.streams import copies
from ticdc_assets_tests.bench.streams.recorded import TABLE


def measure(ground: BenchContext, counts: list[int]) -> None:
    """Print seconds of each number of tables, and the verdicts on the largest."""
    each = many_tables.CHANGES_EACH
    ground.on_progress(f"\nTables with {each} changes each; Spark started and warmed up before the clock")
    ground.on_progress(f"{'tables':>8}{'seconds':>10}{'a table':>10}{'decode':>10}{'changelogs':>12}  memory")
    for count in counts:
        source = ground.scratch / f"tables-{count}-bucket"
        commit_ts = many_tables.spread(ground.bucket(JSON), source, count)
        outcome = _load(ground, source, many_tables.tables_of(count)[-1], commit_ts)
        answer = outcome.answer
        columns = (
            answer["wall_s"],
            answer["wall_s"] / count,
            answer["phases"]["decode and write"],
            answer["changelog_s"],
        )
        seconds = "{:>10.1f}{:>10.2f}{:>10.1f}{:>12.1f}".format(*columns)
        ground.on_progress(f"{count:>8}{seconds}  {outcome.peaks.line()}")
    ground.judge(targets.PER_TABLE, answer["wall_s"] / count)
    source = ground.scratch / "one-table-bucket"
    commit_ts = many_tables.one_table(ground.bucket(JSON), source, count * each)
    one = _load(ground, source, TABLE, commit_ts).answer
    ground.judge(targets.MANY_DECODE, answer["phases"]["decode and write"] / one["phases"]["decode and write"])


def _load(ground: BenchContext, source: Path, table: str, commit_ts: int) -> Outcome:
    scratch = ground.scratch / f"{source.name}-run"
    outcome = child.run(
        "ticdc_assets_tests.bench.children.load",
        scratch,
        form=JSON,
        source=str(source),
        warm_up=str(ground.recorded(JSON)),
    )
    copies.check(ours.mirror_rows(ours.lake_in(scratch / "lake"), table), ground.log.rows_after(commit_ts), table)
    return outcome
