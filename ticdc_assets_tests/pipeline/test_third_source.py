"""A source of changes that has only what `pipeline.source` requires: runs accept it like any other."""

from __future__ import annotations

import dataclasses
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.io import load_file_io

from ticdc_assets.changes.typed import TypedChanges
from ticdc_assets.config import load
from ticdc_assets.notes import Note
from ticdc_assets.pipeline import sources
from ticdc_assets.pipeline.changelog.parts import PartWriter
from ticdc_assets.pipeline.changelog.tables import target_of
from ticdc_assets.pipeline.commit_range import commit_ranges
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.plan import Plan
from ticdc_assets.pipeline.run import run_of
from ticdc_assets.pipeline.source import Missing, Pending
from ticdc_assets.pipeline.source_state import SourceState
from ticdc_assets.pipeline.tasks import FileReport, FileState, Target, TaskReport
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.history.fold.events import fold
from ticdc_assets.spark import LocalWorkers
from ticdc_assets.tables.control.records import TableRecord
from ticdc_assets.tables.progress import progress_of

CREATED = DdlEvent(1 << 18, "shop", "users", "CREATE TABLE users (id INT PRIMARY KEY, v VARCHAR(9))", where="journal")

[TABLE] = fold([CREATED]).source_tables
COLUMNS = TABLE.versions[0].table.stored_columns


@dataclass(frozen=True)
class Journal:
    """What a user would write as `source`: a file with a line [commit_ts, op, id, v] for each change."""

    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalPending(Pending):
    lines: int

    @property
    def is_empty(self) -> bool:
        return self.record is not None and self.high <= self.record.tso

    @property
    def checkpoint(self) -> int:
        return self.high


@dataclass(frozen=True)
class JournalTask:
    path: Path
    run_id: str
    version_ts: int
    target: Target


def read(task: JournalTask) -> TaskReport:
    """Runs in a worker: reads the file and writes its changes as a part of the changelog."""
    lines = [json.loads(line) for line in task.path.read_text().splitlines()]
    ts, ops, ids, values = (list(column) for column in zip(*lines, strict=True))
    schema = task.target.schemas[task.version_ts]
    none = [None] * len(lines)
    changes = TypedChanges(
        COLUMNS, pa.array(ops), pa.array(ts, pa.int64()), pa.array([t >> 18 for t in ts], pa.int64()),
        pa.array(range(len(lines)), pa.int64()), pa.array([0] * len(lines), pa.int64()),
        (pa.array(ids, schema.field("id").type), pa.array(values, pa.string())),
        (pa.array(none, schema.field("id").type), pa.array(none, pa.string())),
        pa.array([False] * len(lines)), 0,
    )  # fmt: skip
    writer = PartWriter(load_file_io({}, task.target.data_uri), task.target, task.run_id, 0)
    writer.write(
        changes.take(pa.array([n for n, t in enumerate(ts) if t > task.target.low])), ["id"], task.version_ts, 0
    )
    writer.close()
    name = ("shop", "users")
    return TaskReport(0, tuple(writer.parts), (FileReport(str(task.path), name, FileState.READ, len(lines)),))


class JournalBatch:
    deliveries_are_known = True

    def __init__(self, path: Path, pending: JournalPending, tables: Mapping[str, Any]) -> None:
        self.records, self.amount = pending.lines, f"{pending.lines} lines"
        self.tasks = [
            JournalTask(path, pending.run_id, n.source_table.versions[0].from_ts, target_of(n, tables[i], n.low))
            for i, n in pending.commit_ranges.items()
        ]
        self._lines = pending.lines

    @property
    def decode(self) -> Callable[[Any], TaskReport]:
        return read

    def new_schemas(self, reports: Sequence[TaskReport]) -> Sequence[DdlEvent]:
        return ()

    def holds(self, reports: Sequence[TaskReport]) -> dict[str, Any]:
        return {}

    def bad_records(self, reports: Sequence[TaskReport], held: Mapping[str, Any]) -> list[Any]:
        return []

    def consumed(self, tables: Mapping[str, Any]) -> dict[str, Any]:
        return {}

    def cursor(self, reports: Sequence[TaskReport], held: Mapping[str, Any]) -> str:
        return str(self._lines)

    def warnings(self, source_table: Any, old: TableRecord | None) -> tuple[Note, ...]:
        return ()

    def with_unknown_tables(self, records: list[TableRecord], reports: Sequence[TaskReport]) -> list[TableRecord]:
        return records


class JournalChanges:
    """The journal as a source of changes."""

    def __init__(self, lake: Lake, until: int | None = None) -> None:
        self._lake, self._until = lake, until
        self._path: Path = lake.changefeed.source.path  # type: ignore[union-attr]

    def scan(self) -> JournalPending:
        lines = [json.loads(line) for line in self._path.read_text().splitlines()]
        record, history = self._lake.control.newest(), self._lake.folds.of([CREATED])
        high = max(ts for ts, *_ in lines)
        ranges = commit_ranges(history.source_tables, self._lake.lows(record), high, {})
        return JournalPending(
            run_id=uuid.uuid4().hex,
            high=high,
            plan=Plan.of(self._lake, record, history, ranges),
            new_events=() if record else (CREATED,),
            lines=len(lines),
        )

    def prepare(self, pending: JournalPending) -> JournalPending:
        return pending

    def batch(self, pending: JournalPending, tables: dict[str, Any]) -> JournalBatch:
        return JournalBatch(self._path, pending, tables)

    def checkpoint(self) -> int | None:
        return None

    def missing_since(self, cursor: str, pending: JournalPending) -> Missing | None:
        return None

    def cursor_with(self, kept: str, made: str, source_table: Any, history: Any) -> str:
        return kept


def source_state(lake: Lake) -> SourceState:
    return SourceState(str(lake.changefeed.source.path.stat().st_size))  # type: ignore[union-attr]


def ts(second: int) -> int:
    return second * 1000 << 18


def lake_of(folder: Path) -> Lake:
    path = folder / "changefeeds.yaml"
    path.write_text("changefeeds: {feed: {sink_uri: 's3://b/p?protocol=csv', source: {storage: b}}}")
    config = load(path, {})
    changefeed = dataclasses.replace(config.changefeed("feed"), source=Journal(folder / "journal"))
    return Lake(config, changefeed)


def test_a_source_made_of_what_runs_ask_for_fills_changelogs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    kind = sources.SourceKind((__name__, "JournalChanges"), (__name__, "source_state"), ("", ""))
    monkeypatch.setitem(sources.SOURCES, Journal, kind)
    lake, journal = lake_of(tmp_path), tmp_path / "journal"
    journal.write_text(f'[{ts(10)}, "I", 1, "a"]\n[{ts(11)}, "I", 2, "b"]\n')

    first = run_of(lake)
    first_report = first.publish_changelogs(first.scan(), LocalWorkers())
    journal.write_text(journal.read_text() + f'[{ts(12)}, "D", 1, null]\n')
    second = run_of(lake)
    second_report = second.publish_changelogs(second.scan(), LocalWorkers())

    [table] = lake.recorded(second_report.record).values()
    changelog = lake.catalog.load_table(tuple(table.changelog or ()))
    rows = changelog.scan().to_arrow().sort_by("_ticdc_commit_ts").to_pylist()
    assert [(row["_ticdc_op"], row["id"], row["v"]) for row in rows] == [("I", 1, "a"), ("I", 2, "b"), ("D", 1, None)]
    assert (first_report.records_read, second_report.records_read) == (2, 3)
    assert (table.watermark, progress_of(changelog).watermark) == (ts(12), ts(12))
    assert run_of(lake).scan().is_empty
    assert sources.state_of_source(lake).digest == str(len(journal.read_text()))
