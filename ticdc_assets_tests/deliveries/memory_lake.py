"""A lake in memory for the real pipeline: a catalog with real Iceberg metadata that is never written to disk.

Tables are pyiceberg's, commits go through its requirements and updates, data files and manifests are real; only the
metadata files and SQLite are left out, and the control tables are lists. What a run decides, in which order it commits
and what a commit says is the real code's. Catalogs that are written down are the work of the other tests.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.utils.concurrent import ExecutorFactory

from ticdc_assets.config import Config
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.storage import late_files
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.sources import message_block
from ticdc_assets.tables.control.records import ClosedFolder, QuarantinedRecord, TableRecord, WatermarkRecord
from ticdc_assets.tables.control.tables import Control
from ticdc_assets.tables.ddl_json import ddl_from_json, ddl_to_json


class MemoryCatalog(SqlCatalog):
    """Tables by identifier, in a dictionary."""

    def __init__(self, name: str, **properties: str) -> None:
        MetastoreCatalog.__init__(self, name, **properties)
        self.kept: dict[tuple[str, ...], Table] = {}
        self._namespaces: set[tuple[str, ...]] = set()

    def load_table(self, identifier: Any) -> Table:
        try:
            table = self.kept[tuple(identifier)]
        except KeyError:
            raise NoSuchTableError(".".join(identifier)) from None
        return Table(tuple(identifier), table.metadata, table.metadata_location, table.io, self)

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        identifier = tuple(table.name())
        staged = self._update_and_stage_table(self.kept.get(identifier), identifier, requirements, updates)
        self.kept[identifier] = staged
        return CommitTableResponse(**{"metadata": staged.metadata, "metadata-location": staged.metadata_location})

    @staticmethod
    def _delete_old_metadata(*_: Any) -> None:
        """There are no files."""

    def rename_table(self, from_identifier: Any, to_identifier: Any) -> Table:
        assert tuple(to_identifier) not in self.kept
        self.kept[tuple(to_identifier)] = self.kept.pop(tuple(from_identifier))
        return self.load_table(to_identifier)

    def create_namespace(self, namespace: Any, properties: Any = None) -> None:
        self._namespaces.add(tuple(namespace))

    def create_namespace_if_not_exists(self, namespace: Any, properties: Any = None) -> None:
        self.create_namespace(namespace)

    def namespace_exists(self, namespace: Any) -> bool:
        return tuple(namespace) in self._namespaces


class MemoryControl(Control):
    """The control tables as lists; statements through the same JSON as in the table."""

    def __init__(self, catalog: Catalog) -> None:
        super().__init__(catalog, ("control",))
        self.records: list[WatermarkRecord] = []
        self.events: list[str] = []
        self.bad: list[QuarantinedRecord] = []
        self.closed: list[ClosedFolder] = []
        self.writes = 0

    def newest(self, complete: bool | None = None) -> WatermarkRecord | None:
        found = [r for r in self.records if complete is None or r.complete is complete]
        return max(found, key=lambda r: (r.tso, r.recorded_at), default=None)

    def record(self, record: WatermarkRecord) -> None:
        self.writes += 1
        self.records.append(record)

    def ddl_events(self) -> list[DdlEvent]:
        return [ddl_from_json(event) for event in self.events]

    def keep_ddl_events(self, events: Sequence[DdlEvent]) -> None:
        self.writes += bool(events)
        self.events += [ddl_to_json(event) for event in events]

    def replace_ddl_events(self, events: Sequence[DdlEvent]) -> None:
        changed = {event.where: event for event in events}
        kept = [changed.get(event.where, event) for event in self.ddl_events()]
        self.writes += bool(events)
        self.events = [ddl_to_json(event) for event in kept]

    def quarantine(self, records: Sequence[QuarantinedRecord]) -> None:
        kept = {record.position for record in self.bad}
        self.bad += [record for record in records if record.position not in kept]

    def ever_quarantined(self, with_raw: bool = True) -> list[QuarantinedRecord]:
        return [record if with_raw else replace(record, raw=b"") for record in self.bad]

    def close_folders(self, folders: Sequence[ClosedFolder]) -> None:
        self.closed += folders

    def closed_folders(self) -> list[ClosedFolder]:
        return [*self.closed]

    def keep_tables(self, records: Sequence[TableRecord]) -> None:
        """Nothing here asks for them."""

    def registered(self, url: str) -> dict[int, str]:
        return {}

    def keep_registered(self, url: str, schemas: Mapping[int, str]) -> None:
        assert not schemas


class MemoryLake:
    """A lake of one changefeed; every run opens it again, as a new process would."""

    def __init__(self, config: Config) -> None:
        self.config = config
        warehouse = {"warehouse": config.catalog.iceberg_warehouse or ""}
        self.catalog = MemoryCatalog(config.catalog.name, **warehouse)
        self.control = MemoryControl(self.catalog)

    def open(self) -> Lake:
        lake = Lake(self.config, self.config.changefeed("feed"))
        lake.__dict__.update(catalog=self.catalog, control=self.control)
        return lake

    @property
    def commits(self) -> int:
        """How many snapshots and control rows there are."""
        return self.control.writes + sum(len(table.metadata.snapshots) for table in self.catalog.kept.values())


BLOCK_MESSAGES = 12
"""So few that small streams have many batches, stretches and tasks."""


class _AtOnce(ThreadPoolExecutor):
    """Does each thing when it is asked to: handing it to a thread takes longer."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(fn(*args, **kwargs))
        return done


@contextmanager
def small_and_cheap() -> Iterator[None]:
    """Batches of a few messages, and without what takes most time in small runs and decides nothing: threads for every
    little thing. Every run that has news compares closed folders."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ExecutorFactory, "_instance", _AtOnce(1))
        patch.setattr(ExecutorFactory, "_instance_pid", os.getpid())
        patch.setattr(late_files, "COMPARED_AFTER", timedelta(0))
        patch.setattr(message_block, "BLOCK_MESSAGES", BLOCK_MESSAGES)
        yield
