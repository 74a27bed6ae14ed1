"""Small buckets for tests that break something: written by hand row by row, or cut out of a workload.

Each knows what must come out, so that a test can say which tables are whole while one is broken, and that the broken
one is whole again once it is corrected.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ticdc_assets.pipeline.record import ChangelogReport
from ticdc_assets.pipeline.run import ChangelogRun, run_of
from ticdc_assets.sources.storage.paths import Layout
from ticdc_assets.tables.control.records import QuarantinedRecord, TableRecord
from ticdc_assets_tests.fixtures import Workload, workloads
from ticdc_assets_tests.pipeline.lakes import FeedLake, expected_changes
from ticdc_assets_tests.protocols.happened import Change
from ticdc_assets_tests.sources.storage.bucket import ID, NAME, Bucket

Name = tuple[str, str]
Row = tuple[Any, ...]

CREATE = "CREATE TABLE `{}` (`id` INT NOT NULL,`name` VARCHAR(200),PRIMARY KEY(`id`))"


def column(name: str, type_: str, **more: str) -> dict[str, str]:
    """A column as schema files list it."""
    return {"ColumnName": name, "ColumnType": type_, **more}


class BrokenRunError(BaseException):
    """Raised by tests in the middle of a run, which ends there as one that is interrupted: no fault of one table."""


class Feed:
    """A bucket that a test breaks, and the lake that is made of it."""

    def __init__(self, lake: FeedLake, bucket: Path, truth: Counter[Change]) -> None:
        self.lake = lake
        self.bucket = bucket
        self.truth = truth

    def run(self) -> ChangelogReport | None:
        return self.lake.publish()

    def scan(self) -> tuple[ChangelogRun, Any]:
        run = run_of(self.lake.lake)
        return run, run.scan()

    def record(self, name: Name) -> TableRecord:
        newest = self.lake.lake.control.newest()
        assert newest is not None
        return next(r for r in newest.tables if (r.schema, r.table) == name)

    def state(self, name: Name) -> str:
        return self.record(name).state

    def note(self, name: Name) -> str:
        return self.record(name).note

    def quarantined(self) -> list[QuarantinedRecord]:
        return self.lake.lake.control.quarantined()

    def found(self, *names: Name) -> Counter[Change]:
        """What the changelogs hold of some tables; of all where none is named."""
        return self._of(self.lake.changes(), names)

    def expected(self, *names: Name) -> Counter[Change]:
        return self._of(self.truth, names)

    @staticmethod
    def _of(changes: Counter[Change], names: tuple[Name, ...]) -> Counter[Change]:
        return Counter(c for c in changes.elements() if not names or (c.schema, c.table) in names)


# -- by hand ----------------------------------------------------------------------------------------------------------


@dataclass
class Sink:
    """A CSV sink that is written row by row. `rows` collects what was written as the changelogs must show it."""

    folder: Path
    checkpoint: int = 1000
    commit_ts: bool = True
    old_values: bool = False
    rows: list[Change] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.bucket = Bucket(self.folder, checkpoint=self.checkpoint)

    def table(self, name: Name, version: int = 100, columns: list[dict] | None = None, query: str = "") -> str:
        return self.bucket.schema(*name, version, columns or [ID, NAME], query or CREATE.format(name[1]))

    def alter(self, name: Name, version: int, query: str, columns: list[dict] | None = None) -> str:
        return self.bucket.schema(*name, version, columns or [ID, NAME], query)

    def line(self, name: Name, op: str, ts: int, *cells: Any, half: bool = False) -> bytes:
        """A record as TiCDC writes it: text quoted, numbers and NULL bare."""
        head = [f'"{op}"', f'"{name[1]}"', f'"{name[0]}"']
        head += [str(ts)] if self.commit_ts else []
        head += [str(half).lower()] if self.old_values else []
        texts = ["\\N" if c is None else str(c) if isinstance(c, int) else f'"{c}"' for c in cells]
        return ",".join([*head, *texts]).encode() + b"\r\n"

    def insert(self, name: Name, ts: int, *cells: Any, columns: tuple[str, ...] = ("id", "name")) -> bytes:
        """A record, noted as a change that must come out."""
        image = tuple(sorted(zip(columns, cells, strict=True)))
        self.rows.append(Change(*name, "I", ts if self.commit_ts else None, image, None))  # type: ignore[arg-type]
        return self.line(name, "I", ts, *cells)

    def update(self, name: Name, ts: int, old: Row, new: Row) -> list[bytes]:
        """The two records of an update with old values."""
        now, before = (tuple(sorted(zip(("id", "name"), cells, strict=True))) for cells in (new, old))
        self.rows.append(Change(*name, "U", ts, now, before))
        return [self.line(name, "D", ts, *old, half=True), self.line(name, "I", ts, *new, half=True)]

    def file(self, name: Name, number: int, lines: Iterable[bytes], version: int = 100) -> Path:
        """One data file, which the index then names."""
        folder = f"{name[0]}/{name[1]}/{version}"
        self.bucket.index(folder, number)
        return self.folder / self.bucket.data(folder, number, b"".join(lines))

    def feed(self, folder: Path, **settings: Any) -> Feed:
        """The feed with everything written so far as its truth."""
        csv = {"include-commit-ts": self.commit_ts, "output-old-value": self.old_values}
        return hand_made(self.folder, folder, "csv", Counter(self.rows), {"csv": csv}, **settings)


@dataclass
class JsonSink(Sink):
    """The same as a Canal-JSON sink, for tables of any columns."""

    def __post_init__(self) -> None:
        self.bucket = Bucket(self.folder, Layout(date_separator="none", extension="json"), self.checkpoint)

    def message(self, name: Name, ts: int | None, row: dict[str, str | None]) -> bytes:
        """An INSERT, member by member as TiCDC writes it."""
        message: dict[str, Any] = {"id": 0, "database": name[0], "table": name[1], "pkNames": ["id"], "isDdl": False}
        message |= {"type": "INSERT", "es": 1, "ts": 2, "sql": "", "sqlType": dict.fromkeys(row, 12)}
        message |= {"mysqlType": dict.fromkeys(row, "varchar"), "old": None, "data": [row]}
        message |= {} if ts is None else {"_tidb": {"commitTs": ts}}
        return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode() + b"\r\n"

    def insert(self, name: Name, ts: int, *cells: Any, columns: tuple[str, ...] = ("id", "name")) -> bytes:
        super().insert(name, ts, *cells, columns=columns)
        texts = [None if cell is None else str(cell) for cell in cells]
        return self.message(name, ts, dict(zip(columns, texts, strict=True)))

    def feed(self, folder: Path, **settings: Any) -> Feed:
        return hand_made(self.folder, folder, "canal-json", Counter(self.rows), {}, **settings)


def hand_made(
    bucket: Path,
    folder: Path,
    protocol: str,
    truth: Counter[Change],
    sink: dict[str, Any],
    extension: bool = True,
    **settings: Any,
) -> Feed:
    """A feed over a bucket that a test wrote itself; `extension` is that of TiDB."""
    variant = {
        "sink_uri": f"file:///bucket?protocol={protocol}&enable-tidb-extension={str(extension).lower()}",
        "config": {"sink": {"date-separator": "none", **sink}},
    }
    workload: Any = SimpleNamespace(variant=variant, events=[], time_zone="UTC", root=bucket)
    return Feed(FeedLake(workload, folder, bucket, **settings), bucket, truth)


# -- out of a workload ----------------------------------------------------------------------------------------------


def cut_out(variant: str, names: list[Name], folder: Path, **settings: Any) -> Feed:
    """A copy of some tables of a workload's bucket."""
    [workload] = [w for w in workloads(variant, "seed1") if w.root.parent.name == variant]
    data, bucket = workload.root / "data", folder / "bucket"
    for schema, table in names:
        shutil.copytree(data / schema / table, bucket / schema / table)
    shutil.copyfile(data / "metadata", bucket / "metadata")
    lake = FeedLake(workload, folder / "lake", bucket, tables=[f"{s}.{t}" for s, t in names], **settings)
    return Feed(lake, bucket, truth_of(workload, names))


def truth_of(workload: Workload, names: list[Name]) -> Counter[Change]:
    csv = workload.variant["config"]["sink"].get("csv")
    old_values = csv is None or csv.get("output-old-value", False)
    return Counter(c for c in expected_changes(workload, old_values).elements() if (c.schema, c.table) in names)
