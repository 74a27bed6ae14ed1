"""One changefeed and its lake, as a run sees them: config, catalog, control tables and names. Starts no JVM."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from ticdc_assets import names
from ticdc_assets.config import Changefeed, Config, MessagesSource, StorageSource
from ticdc_assets.tables.catalog import open_catalog
from ticdc_assets.tables.control.records import TableRecord, WatermarkRecord
from ticdc_assets.tables.control.tables import Control
from ticdc_assets.tables.locations import TableLocations, table_locations
from ticdc_assets.tables.mirror.kept_files import KeptFiles

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from ticdc_assets.protocols.csv.options import CsvOptions
    from ticdc_assets.schema.ddl_event import DdlEvent
    from ticdc_assets.schema.history.fold.events import Folds, Known
    from ticdc_assets.schema.history.source_table import History, SourceTable


_SQLITE: Final = "sqlite:///"
_OF_FILES: Final = ("s3.", "client.", "gcs.", "adls.", "hdfs.", "py-io-impl")
"""Prefixes of the properties with which pyiceberg opens file systems."""


def read_only_config(config: Config) -> Config:
    """The config for read-only use. Before the first run the embedded catalog does not exist; an empty one in memory
    then replaces it, so that a read creates nothing."""
    catalog = config.catalog
    uri, warehouse = catalog.uri or "", catalog.warehouse or ""
    if catalog.type != "sql" or not uri.startswith(_SQLITE) or "://" in warehouse:
        return config
    if Path(uri.removeprefix(_SQLITE).partition("?")[0]).exists() or Path(warehouse).exists():
        return config
    return replace(config, catalog=replace(catalog, uri="sqlite://", warehouse="memory://"))


@dataclass(frozen=True)
class Lake:
    """A changefeed, its catalog and its control tables."""

    config: Config
    changefeed: Changefeed

    moves_tables: ClassVar[bool] = True
    """Whether tables are renamed as their source tables are."""

    @cached_property
    def catalog(self) -> Catalog:
        """The catalog; it is opened at the first use."""
        return open_catalog(self.config.catalog, names.encode(self.changefeed.name))

    @cached_property
    def control(self) -> Control:
        """The changefeed's control tables."""
        return Control(self.catalog, names.control_namespace(self.changefeed.target, self.changefeed.name))

    @cached_property
    def origin(self) -> Control | None:
        """The control tables of the changefeed whose landed messages this one reads; None for other sources."""
        source = self.changefeed.source
        if not isinstance(source, MessagesSource):
            return None
        other = self.config.changefeed(source.changefeed)
        return Control(self.catalog, names.control_namespace(other.target, other.name))

    @property
    def storage_uri(self) -> str:
        """The sink's URI with its credentials; never print it."""
        source = self.changefeed.source
        assert isinstance(source, StorageSource)
        return source.storage.uri

    @property
    def cores(self) -> int:
        """How many tasks run at once; spark.default.parallelism overrides it for a cluster."""
        master = self.config.spark.master
        parallelism = self.config.spark.conf.get("spark.default.parallelism")
        if parallelism:
            return int(parallelism)
        inside = master.partition("[")[2].rstrip("]")
        return int(inside) if inside.isdigit() else os.cpu_count() or 1

    @property
    def by_arrival(self) -> bool:
        """Whether the stream has no commit_ts: rows are then ordered by arrival, and progress is by file."""
        return self.changefeed.sink.is_by_arrival

    @property
    def measures_lag(self) -> bool:
        """Whether a watermark shows how far behind a table is. Messages ordered by arrival have none."""
        return isinstance(self.changefeed.source, StorageSource) or not self.by_arrival

    @property
    def csv_options(self) -> CsvOptions:
        return self.changefeed.sink.csv.as_read()

    @property
    def io_properties(self) -> dict[str, str]:
        """What a worker needs to open the warehouse's file system: the configured properties, else those of the
        catalog."""
        of_files = {k: str(v) for k, v in self.catalog.properties.items() if k.startswith(_OF_FILES)}
        return of_files | dict(self.config.catalog.pyiceberg_properties)

    def follows(self, schema: str, table: str) -> bool:
        """Whether the config's `tables` select this table."""
        return not table or self.changefeed.tables.matches(schema, table)

    def asks_for(self, source_table: SourceTable) -> bool:
        """Whether the config's `tables` select this table, under any name that it has or had. A table whose rows a
        loaded dump has is not selected."""
        return not source_table.is_contained and source_table.was_ever(self.follows)

    def keeps_history(self, source_table: SourceTable) -> bool:
        """Whether the config's `history` selects this table, under any name that it has or had."""
        return source_table.was_ever(self.changefeed.mirror.history.matches)

    @cached_property
    def mirror_files(self) -> KeptFiles:
        """The files of mirrors that runs with this object have committed."""
        return KeptFiles()

    @cached_property
    def folds(self) -> Folds:
        # The grammar of statements takes long to import; commands that only read records do without it.
        from ticdc_assets.pipeline.user_schemas import known_of
        from ticdc_assets.schema.history.fold.events import Folds

        return Folds(known_of(self.changefeed))

    @property
    def known(self) -> Known:
        return self.folds.known

    def history(self, new: Sequence[DdlEvent] = ()) -> History:
        """The history of all recorded events and of `new`."""
        return self.folds.of([*self.control.ddl_events(), *new])

    def table_locations(self, history: History) -> dict[str, TableLocations]:
        """By source table, the locations of its changelog and its mirror."""
        for kept, found in self._newest_locations:
            if kept is history:
                return dict(found)
        found = table_locations(self.config, self.changefeed, history)
        self._newest_locations[:] = [(history, found)]
        return dict(found)

    @cached_property
    def _newest_locations(self) -> list[tuple[History, dict[str, TableLocations]]]:
        """The last result: most scans find the history of the scan before."""
        return []

    @staticmethod
    def recorded(record: WatermarkRecord | None) -> dict[str, TableRecord]:
        """By source table, what the newest record of `watermarks` has of it; empty before the first run."""
        return {table.source_table: table for table in record.tables} if record else {}

    def lows(self, record: WatermarkRecord | None) -> dict[str, int]:
        """By source table, the TSO up to which its changelog is complete."""
        return {source_table: table.watermark for source_table, table in self.recorded(record).items()}
