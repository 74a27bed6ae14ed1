"""The cost of a file: 20,000 files of five rows of one table, beside one such file and beside the same rows in large
files.

From the shell the command `run` is measured with all that it starts; in a session, a run from its scan to its record.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from ticdc_assets_tests.bench import child, ours, targets
from ticdc_assets_tests.bench.children import many_tables
from ticdc_assets_tests.bench.clock import Spent
from ticdc_assets_tests.bench.ground import BenchContext
from ticdc_assets_tests.bench.measures.loads import CSV, JSON
from ticdc_assets_tests.bench.streams import copies
from ticdc_assets_tests.bench.streams.buckets import Tree
from ticdc_assets_tests.bench.streams.recorded import FORMS, TABLE

ROWS: Final = 5
FILES: Final = copies.EVENTS_RECORDED // ROWS
_SHELL: Final = (sys.executable, "-m", "ticdc_assets.cli", "run", "--config")


@dataclass(frozen=True)
class _Source:
    """A bucket of the recorded table, and the TSO up to which it is complete."""

    name: str
    root: Path
    checkpoint: int


def measure(ground: BenchContext, turns: int) -> None:
    """Print seconds of each bucket in each turn, and the verdicts on a file of the many."""
    for form in (JSON, CSV):
        sources = _sources(ground, form)
        _from_the_shell(ground, form, sources[1], turns)  # loads and compiles what is not there yet
        ground.on_progress(f"\n{FILES:,} files of {ROWS} rows, {form}: seconds (of processor time)")
        for where, run in {"the shell": _from_the_shell, "a session": _in_a_session}.items():
            files = []
            for turn in range(turns):
                spent = [run(ground, form, source, turn) for source in sources]
                shown = (f"{s.name} {t.wall_s:.1f} ({t.cpu_s:.1f})" for s, t in zip(sources, spent, strict=True))
                ground.on_progress(f"{where:>10}: " + ", ".join(shown))
                files.append(_a_file(many=spent[0], one=spent[1]))
            ground.on_progress(f"{'':12}{median(file.cpu_s for file in files) * 1e3:.2f} ms of the processor a file")
            what = f"{targets.SMALL_FILE.what}, {form.removeprefix('storage-')}, {where}"
            target = targets.Target(what, "<=", targets.SMALL_FILE.bound, targets.SMALL_FILE.unit)
            ground.judge(target, median(file.wall_s for file in files) * 1e3)


def _a_file(many: Spent, one: Spent) -> Spent:
    return Spent((many.wall_s - one.wall_s) / (FILES - 1), (many.cpu_s - one.cpu_s) / (FILES - 1))


def _sources(ground: BenchContext, form: str) -> tuple[_Source, _Source, _Source]:
    like = ground.bucket(form)
    many, one = ground.scratch / f"{form}-{FILES}-files", ground.scratch / f"{form}-one-file"
    lines = b"".join(path.read_bytes() for path in like.data_files).splitlines(keepends=True)
    tree = Tree(many, like)
    tree.add_table(TABLE, [b"".join(lines[at : at + ROWS]) for at in range(0, len(lines), ROWS)])
    tree.checkpoint(like.checkpoint)
    return (
        _Source("many files", many, like.checkpoint),
        _Source("one file", one, many_tables.one_table(like, one, ROWS)),
        _Source("large files", like.root, like.checkpoint),
    )


def _from_the_shell(ground: BenchContext, form: str, source: _Source, turn: int) -> Spent:
    scratch = _scratch(ground, "shell", form, source, turn)
    config = ours.config_file(FORMS[form], source.root, scratch / "lake")
    command = [*_SHELL, str(config)]
    answer = child.run("ticdc_assets_tests.bench.children.whole_process", scratch / "run", command=command).answer
    _check(ground, scratch, source)
    return Spent(answer["wall_s"], answer["cpu_s"])


def _in_a_session(ground: BenchContext, form: str, source: _Source, turn: int) -> Spent:
    scratch = _scratch(ground, "session", form, source, turn)
    given = {"form": form, "source": str(source.root), "warm_up": str(ground.recorded(form))}
    answer = child.run("ticdc_assets_tests.bench.children.load", scratch, **given).answer
    _check(ground, scratch, source)
    return Spent(answer["wall_s"], answer["cpu_s"])


def _scratch(ground: BenchContext, where: str, form: str, source: _Source, turn: int) -> Path:
    return ground.scratch / f"{where}-{form}-{source.name}-{turn}".replace(" ", "-")


def _check(ground: BenchContext, scratch: Path, source: _Source) -> None:
    found = ours.mirror_rows(ours.lake_in(scratch / "lake"))
    copies.check(found, ground.log.rows_after(source.checkpoint), source.name)
