"""Small changefeeds in a folder, run through Dagster without Java: a stand-in replaces the mirrors.

The stand-in counts rows in Python, independently, so that the figures in Dagster can be compared with it.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from ticdc_assets import spark
from ticdc_assets.assets.graph import definitions_of
from ticdc_assets.assets.resources import ChangefeedRun
from ticdc_assets.assets.stages import mirrors as mirrors_module
from ticdc_assets.changes import layout
from ticdc_assets.changes.layout import mirror_columns
from ticdc_assets.commands.process import run as run_command
from ticdc_assets.config import Config, load
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.mirror.pending import blocked_tables
from ticdc_assets.pipeline.run.mirrors import MirrorReport
from ticdc_assets.schema.history.source_table import SourceTable
from ticdc_assets.spark import LocalWorkers
from ticdc_assets.tables.catalog import Identifier, ensure_namespace
from ticdc_assets.tables.control.records import TableRecord
from ticdc_assets.tables.iceberg.properties import COLUMNS
from ticdc_assets.tables.iceberg.types import iceberg_type
from ticdc_assets.tables.progress import columns_property
from ticdc_assets.tso import from_physical_ms, now
from ticdc_assets_tests.sources.storage.bucket import ID, NAME, NONE, Bucket

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
START = from_physical_ms(1_760_000_000_000)
CSV: dict[str, Any] = {
    "sink_uri": "file:///x?protocol=csv",
    "config": {"sink": {"date-separator": "none", "csv": {"include-commit-ts": True}}},
}


def ts(seconds: float) -> int:
    """A TSO so many seconds after the tests' beginning of time."""
    return START + (int(seconds * 1000) << 18)


class Feed:
    """One changefeed that a test writes, with its lake in the same folder."""

    def __init__(self, folder: Path, name: str = "shop", **settings: Any) -> None:
        self.folder = folder
        self.name = name
        self.bucket = Bucket(folder / f"bucket_{name}", NONE, checkpoint=ts(0))
        self.path = folder / "changefeeds.yaml"
        self._settings = {**CSV, "source": {"storage": str(self.bucket.base)}, **settings}
        self._files: dict[tuple[str, str], int] = {}
        self._versions: dict[tuple[str, str], int] = {}
        self._write({name: self._settings})

    def _write(self, changefeeds: dict[str, Any]) -> None:
        whole = yaml.safe_load(self.path.read_text()) if self.path.exists() else {"changefeeds": {}}
        whole["changefeeds"].update(changefeeds)
        self.path.write_text(yaml.safe_dump(whole, allow_unicode=True))

    # -- the source -----------------------------------------------------------------------------------------------

    def table(self, schema: str, table: str, seconds: float = 1, keyless: bool = False) -> Feed:
        """CREATE TABLE with id (the key, unless keyless) and name."""
        key = "" if keyless else ", PRIMARY KEY (`id`)"
        quoted = f"`{table.replace('`', '``')}`"
        columns = [{k: v for k, v in ID.items() if not keyless or k != "ColumnIsPk"}, NAME]
        return self.statement(
            schema, table, f"CREATE TABLE {quoted} (`id` INT NOT NULL, `name` VARCHAR(200){key})", seconds, columns
        )

    def statement(
        self, schema: str, table: str, query: str, seconds: float, columns: list[dict] | None = None, type_: int = 3
    ) -> Feed:
        columns = [ID, NAME] if columns is None else columns
        self.bucket.schema(schema, table, ts(seconds), columns, query=query, type_=type_)
        self._versions[(schema, table)] = ts(seconds)
        self._files[(schema, table)] = 0
        return self

    def rows(self, schema: str, table: str, *changes: tuple[str, int, str, float]) -> Feed:
        """One data file of changes (op, id, name, seconds)."""
        number = self._files[(schema, table)] = self._files[(schema, table)] + 1
        lines = [
            f'"{op}",{_quoted(table)},{_quoted(schema)},{ts(at)},{key},{_quoted(name)}' for op, key, name, at in changes
        ]
        folder = f"{schema}/{table}/{self._versions[(schema, table)]}"
        self.bucket.index(folder, number)
        self.bucket.data(folder, number, "".join(f"{line}\r\n" for line in lines).encode())
        return self

    def checkpoint(self, seconds: float) -> Feed:
        self.bucket.checkpoint(ts(seconds))
        return self

    # -- the project ----------------------------------------------------------------------------------------------

    @property
    def config(self) -> Config:
        return load(self.path, {})

    @property
    def lake(self) -> Lake:
        return Lake(self.config, self.config.changefeed(self.name))

    @property
    def definitions(self) -> dg.Definitions:
        return definitions_of(self.config)

    def run(
        self, instance: dg.DagsterInstance | None = None, definitions: dg.Definitions | None = None, **options: Any
    ) -> dg.ExecuteInProcessResult:
        """The changefeed's job, once."""
        job = (definitions or self.definitions).resolve_job_def(f"{self.name}__run")
        return job.execute_in_process(QUIET, instance=instance, raise_on_error=False, **options)

    def records(self) -> dict[str, TableRecord]:
        newest = self.lake.control.newest()
        return {f"{r.schema}.{r.table}": r for r in newest.tables} if newest else {}

    def snapshots(self) -> int:
        """How many snapshots all tables of the lake have."""
        catalog = self.lake.catalog
        tables = [catalog.load_table(t) for n in catalog.list_namespaces() for t in catalog.list_tables(n)]
        return sum(len(table.snapshots()) for table in tables)


def _quoted(text: str) -> str:
    doubled = text.replace('"', '""')
    return f'"{doubled}"'


# -- the stand-in for Spark --------------------------------------------------------------------------------------------


@pytest.fixture
def without_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ChangefeedRun, "workers", lambda self: LocalWorkers())
    monkeypatch.setattr(run_command, "require_java", lambda: None)
    monkeypatch.setattr(spark, "start_ahead", lambda config: None)
    monkeypatch.setattr(mirrors_module, "run_mirrors", run_mirrors_without_java)


def run_mirrors_without_java(
    lake: Lake, run_id: str, jvm: object, on_progress: object, only: Iterable[str] | None = None
) -> MirrorReport | None:
    record = lake.control.newest()
    if record is None:
        return None
    source_tables = lake.history().by_id()
    tables = tuple(
        _mirrored(lake, table, source_tables[table.source_table])
        if source_tables[table.source_table].newest.key
        else table
        for table in record.tables
    )
    fresh = replace(record, recorded_at=now(), complete=not blocked_tables(tables), tables=tables)
    if (fresh.complete, fresh.tables) != (record.complete, record.tables):
        lake.control.record(fresh)
    return MirrorReport(fresh)


def _mirrored(lake: Lake, table: TableRecord, source_table: SourceTable) -> TableRecord:
    if table.changelog is None:
        return table
    changes = lake.catalog.load_table(tuple(table.changelog)).scan().to_arrow().to_pylist()
    newest: dict[Any, str] = {}
    order = (layout.SEQ,) if lake.by_arrival else (layout.COMMIT_TS, layout.SEQ)
    for row in sorted(changes, key=lambda row: [row[name] for name in order]):
        newest[tuple(str(row.get(name)) for name in table.key)] = row[layout.OP]
    rows = sum(op != "D" for op in newest.values())
    mirror = [part.replace("__changes", "") for part in table.changelog]
    _make_mirror(lake, tuple(mirror), source_table)
    return replace(table, mirror=mirror, mirror_snapshot_id=table.changelog_snapshot_id or 1, rows=rows)


def _make_mirror(lake: Lake, identifier: Identifier, source_table: SourceTable) -> None:
    """An empty table with the mirror's columns."""
    ids = itertools.count(1)
    columns = mirror_columns(source_table.newest.stored_columns, source_table.newest.key)
    fields = [NestedField(next(ids), c.name, iceberg_type(c.type, ids), required=c.required) for c in columns]
    properties = {COLUMNS: columns_property({c.uid: [number] for number, c in enumerate(columns, start=1)})}
    ensure_namespace(lake.catalog, identifier[:-1])
    schema = Schema(*fields, NestedField(next(ids), layout.COMMIT_TS, LongType(), required=False))
    lake.catalog.create_table_if_not_exists(identifier, schema, properties=properties)


# -- what Dagster recorded ---------------------------------------------------------------------------------------------


def materializations(result: dg.ExecuteInProcessResult) -> dict[str, dict[str, Any]]:
    """By asset key, the metadata of its last materialisation in a run."""
    found = {}
    for event in result.all_events:
        if event.is_step_materialization:
            materialization = event.step_materialization_data.materialization
            found[materialization.asset_key.to_user_string()] = {
                name: value.value for name, value in materialization.metadata.items()
            }
    return found


def checks(result: dg.ExecuteInProcessResult) -> dict[tuple[str, str], Any]:
    """By asset key and check, its evaluation."""
    return {(e.asset_key.to_user_string(), e.check_name): e for e in result.get_asset_check_evaluations()}


def failures(result: dg.ExecuteInProcessResult) -> list[str]:
    """Why steps failed, apart from red checks."""
    return [
        str(event.step_failure_data.error)
        for event in result.all_events
        if event.is_step_failure and "AssetCheckFailed" not in str(event.step_failure_data.error)
    ]


def event_texts(result: dg.ExecuteInProcessResult) -> str:
    """Every event of a run as text."""
    return "\n".join(json.dumps(str(event), ensure_ascii=False) for event in result.all_events)
