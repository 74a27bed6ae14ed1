"""Few changes into many rows: a run of ours, decode and changelog included, against a bare MERGE of ready Parquet."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ticdc_assets_tests.bench import child, targets
from ticdc_assets_tests.bench.children.incremental import Amounts, Stages
from ticdc_assets_tests.bench.ground import BenchContext
from ticdc_assets_tests.bench.measures.loads import JSON
from ticdc_assets_tests.bench.peers.columns import COLUMNS
from ticdc_assets_tests.bench.streams import copies
from ticdc_assets_tests.bench.streams.recorded import KEY

ROUNDS: Final = 2  # the first warms up what a base does not


def measure(ground: BenchContext) -> None:
    """Print seconds of both, and the ratio."""
    amounts = Amounts()
    stages = Stages(ground.bucket(JSON), ground.log, ground.scratch / "stages", 2 * ground.events)
    rounds = [stages.add_round(amounts) for _ in range(ROUNDS)]
    ground.on_progress(f"\nA round of {amounts.all:,} changes into {stages.rows:,} rows")
    scratch = ground.scratch / "rounds"
    own = child.run(
        "ticdc_assets_tests.bench.children.load_rounds",
        scratch,
        form=JSON,
        source=str(ground.scratch / "growing"),
        stages=stages.folders,
    )
    _check(scratch, stages, rounds)
    ready = [_ready(ground, number, changed) for number, changed in enumerate(rounds)]
    bare = child.run(
        "ticdc_assets_tests.bench.peers.bare_merge",
        ground.scratch / "bare",
        base=_base_as_sent(ground),
        rounds=ready,
        cores=ground.cores,
    )
    answer = own.answer
    ground.on_progress(
        f"ticdc-assets {answer['wall_s']:.1f} s, of which until the changelog {answer['changelog_s']:.1f} s"
    )
    ground.on_progress("   " + ", ".join(f"{name} {s:.1f} s" for name, s in answer["phases"].items()))
    ground.on_progress(f"bare MERGE   {bare.answer['wall_s']:.1f} s")
    ground.judge(targets.INCREMENTAL, answer["wall_s"] / bare.answer["wall_s"])


def _check(scratch: Any, stages: Stages, rounds: list[list[dict[str, Any]]]) -> None:
    """The changed keys row by row; all others by their number."""
    found = pq.read_table(scratch / "rows.parquet")
    changed = pa.array(sorted({row[KEY] for one in rounds for row in one}), pa.int64())
    is_changed = pc.is_in(found[KEY], changed)
    copies.check(found.filter(is_changed), stages.true_rows(rounds), "the changed rows")
    gained = sum({"INSERT": 1, "DELETE": -1}.get(row["type"], 0) for one in rounds for row in one)
    if len(found) != stages.rows + gained:
        raise AssertionError(f"{len(found):,} rows, not {stages.rows + gained:,}")


def _base_as_sent(ground: BenchContext) -> str:
    """The base in the peers' columns, from this project's own mirror: both start from the same rows."""
    target = ground.scratch / "bare-base.parquet"
    base = pq.read_table(ground.scratch / "rounds" / "base.parquet")
    pq.write_table(pa.table({name: _plain(base[name], arrow) for name, arrow in COLUMNS.items()}), target)
    return str(target)


def _ready(ground: BenchContext, number: int, changed: list[dict[str, Any]]) -> str:
    target = ground.scratch / f"round-{number}.parquet"
    typed = ground.log.table(changed)
    types = pa.table({KEY: [row[KEY] for row in changed], "type": [row["type"] for row in changed]}).sort_by(KEY)
    columns = {name: _plain(typed[name], arrow) for name, arrow in COLUMNS.items()}
    pq.write_table(pa.table({**columns, "type": types["type"]}), target)
    return str(target)


def _plain(values: pa.ChunkedArray, arrow: pa.DataType) -> pa.ChunkedArray:
    """Labels and bytes as they are: only their number and size matter to a MERGE."""
    is_same = values.type == arrow or pa.types.is_string(values.type) or pa.types.is_binary(values.type)
    return values if is_same else values.cast(arrow)
