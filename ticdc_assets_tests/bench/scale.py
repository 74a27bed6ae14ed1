"""What the driver does for each table and each file, without Spark: `python -m ticdc_assets_tests.bench.scale FOLDER`.

The workers are replaced by functions in this process, whose processor time is not counted, and the store by a local
folder and SQLite. So the figures are those of the driver alone. FOLDER holds the recorded streams, as for the bench.
"""

from __future__ import annotations

import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from ticdc_assets.config import Config
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.run import run_of
from ticdc_assets.tables.control.records import TableRecord, WatermarkRecord
from ticdc_assets.tables.control.tables import Control
from ticdc_assets.tso import now
from ticdc_assets_tests.bench import ours
from ticdc_assets_tests.bench.children.many_tables import first_changes, tables_of
from ticdc_assets_tests.bench.measures.loads import JSON
from ticdc_assets_tests.bench.streams.buckets import Bucket, Tree, rows
from ticdc_assets_tests.bench.streams.recorded import FORMS, unpacked
from ticdc_assets_tests.bench.streams.templates import Shift

CHANGES: Final = 5
TABLES: Final = (25, 100)
SCANNED: Final = ((500, 1), (2000, 1), (20, 100), (20, 400))
RECORDED: Final = (100, 1000, 10_000)


class FakeWorkers:
    """Does the work in this process and counts its processor time apart."""

    def __init__(self) -> None:
        self.cpu_s = 0.0

    def map(self, work: Callable[[Any], Any], payloads: Sequence[Any]) -> list[Any]:
        began = time.process_time()
        answers = [work(payload) for payload in payloads]
        self.cpu_s += time.process_time() - began
        return answers


def bucket(like: Bucket, root: Path, tables: int, files: int) -> Tree:
    """A bucket of tables with so many files each; all files of a table have the same rows."""
    data, commit_ts = first_changes(like, CHANGES)
    template = rows(data, like.extension)
    tree = Tree(root, like)
    for table in tables_of(tables):
        tree.add_table(table, [template.shifted(Shift(table=table.encode()))] * files)
    tree.checkpoint(commit_ts)
    return tree


def measured(work: Callable[[], Any]) -> tuple[float, Any]:
    """Processor seconds of this process, and the answer."""
    began = time.process_time()
    answer = work()
    return time.process_time() - began, answer


def scans(like: Bucket, scratch: Path) -> None:
    """A first scan of many tables, and of many files."""
    print(f"{'tables':>8}{'files each':>12}{'scan s':>10}{'ms a table':>12}{'ms a file':>12}")
    for tables, files in SCANNED:
        root = scratch / f"scan-{tables}-{files}"
        bucket(like, root / "bucket", tables, files)
        lake = _lake(ours.config_of(FORMS[JSON], root / "bucket", root / "lake"))
        cpu_s, _ = measured(lambda lake=lake: run_of(lake).scan())  # type: ignore[misc]
        print(f"{tables:>8}{files:>12}{cpu_s:>10.2f}{cpu_s / tables * 1e3:>12.2f}{cpu_s / tables / files * 1e3:>12.3f}")


def runs(like: Bucket, scratch: Path) -> None:
    """A first run, a run with changes of every table, one with changes of one table, and a scan with nothing new."""
    print(f"\n{'tables':>8}{'first run':>12}{'all change':>12}{'one changes':>12}{'nothing new':>12}  seconds")
    for tables in TABLES:
        root = scratch / f"run-{tables}"
        tree = bucket(like, root / "bucket", tables, 1)
        config = ours.config_of(FORMS[JSON], root / "bucket", root / "lake")
        seconds = [_run(config)]
        begin = CHANGES
        for changed in (tables_of(tables), tables_of(1)):
            before, _ = first_changes(like, begin)
            after, commit_ts = first_changes(like, before.count(b"\n") + CHANGES)
            begin = after.count(b"\n")
            template = rows(after[len(before) :], like.extension)
            for table in changed:
                number = len(seconds) + 1
                tree.add_file(table, number, template.shifted(Shift(table=table.encode())))
                tree.index(table, number)
            tree.checkpoint(commit_ts)
            seconds.append(_run(config))
        seconds.append(measured(lambda config=config: run_of(_lake(config)).scan())[0])  # type: ignore[misc]
        print(f"{tables:>8}" + "".join(f"{cpu_s:>12.2f}" for cpu_s in seconds))


def _run(config: Config) -> float:
    workers = FakeWorkers()

    def work() -> None:
        stream = run_of(_lake(config))
        stream.publish_changelogs(stream.scan(), workers)

    return measured(work)[0] - workers.cpu_s


def records(scratch: Path) -> None:
    """Writing and reading a record of many tables."""
    print(f"\n{'tables':>8}{'write s':>10}{'read s':>10}{'file KiB':>10}")
    for tables in RECORDED:
        root = scratch / f"record-{tables}"
        (root / "bucket").mkdir(parents=True)
        catalog = _lake(ours.config_of(FORMS[JSON], root / "bucket", root / "lake")).catalog
        control = Control(catalog, ("ticdc_bench",))
        control.record(_record(tables, 0))
        written, _ = measured(lambda control=control, tables=tables: control.record(_record(tables, 1)))  # type: ignore[misc]
        read, _ = measured(control.newest)
        table = control.watermarks()
        assert table is not None
        size = max(task.file.file_size_in_bytes for task in table.scan().plan_files())
        print(f"{tables:>8}{written:>10.2f}{read:>10.2f}{size // 1024:>10}")


def _record(tables: int, number: int) -> WatermarkRecord:
    named = (
        TableRecord(
            f"{i}@1", "shop", f"table_{i}", "live", (), ["id"], number, ["shop", f"table_{i}"],
            hash((i, number)), ["shop__changes", f"table_{i}"], hash((number, i)), 5, uuid.uuid4().hex,
        )
        for i in range(tables)
    )  # fmt: skip
    return WatermarkRecord(now(), uuid.uuid4().hex, number, True, "{}", tuple(named))


def _lake(config: Config) -> Lake:
    return Lake(config, config.changefeeds[0])


def main() -> None:
    """Print all figures."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        like = Bucket(unpacked(Path(sys.argv[1]), JSON, scratch))
        scans(like, scratch)
        runs(like, scratch)
        records(scratch)


if __name__ == "__main__":
    main()
