"""One changefeed and its lake, as a run sees them: config, catalog, control tables, names. Opens no JVM."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ticdc_assets import names
from ticdc_assets.config import Changefeed, Config, StorageSource
from ticdc_assets.pipeline.known import known_of
from ticdc_assets.protocols.csv import CsvOptions
from ticdc_assets.protocols.events import DdlEvent
from ticdc_assets.schema.folds import Folds
from ticdc_assets.schema.history import Known
from ticdc_assets.schema.lineage import History, Lineage
from ticdc_assets.tables.catalog import Identifier, load_or_none, open_catalog
from ticdc_assets.tables.control import Control, TableRecord, WatermarkRecord
from ticdc_assets.tables.places import Place, parked, places, settle
from ticdc_assets.tables.progress import lineage_of

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


_SQLITE: Final = "sqlite:///"


def to_look_at(config: Config) -> Config:
    """The config for whoever only looks: where no run has made the embedded catalog yet, an empty one in memory stands
    in for it, so that looking makes nothing."""
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

    @cached_property
    def catalog(self) -> Catalog:
        return open_catalog(self.config.catalog, names.encode(self.changefeed.name))

    @cached_property
    def control(self) -> Control:
        return Control(self.catalog, names.control_namespace(self.changefeed.target, self.changefeed.name))

    @property
    def storage_uri(self) -> str:
        """Where the sink's tree is, with what opening it needs; never printed."""
        source = self.changefeed.source
        assert isinstance(source, StorageSource)
        return source.storage.uri

    @property
    def cores(self) -> int:
        """How many tasks run at once; a cluster's master tells more through spark.default.parallelism."""
        master = self.config.spark.master
        asked = self.config.spark.conf.get("spark.default.parallelism")
        if asked:
            return int(asked)
        inside = master.partition("[")[2].rstrip("]")
        return int(inside) if inside.isdigit() else os.cpu_count() or 1

    @property
    def by_arrival(self) -> bool:
        """Whether the stream has no commit_ts, so that order is by arrival and progress by file."""
        sink = self.changefeed.sink
        return not (sink.has_commit_ts and sink.has_watermark) or str(sink.protocol) == "avro"

    @property
    def tells_time(self) -> bool:
        """Whether watermarks tell how far behind a table is. Messages in the order of arrival do not."""
        return isinstance(self.changefeed.source, StorageSource) or not self.by_arrival

    @property
    def csv_options(self) -> CsvOptions:
        return CsvOptions(**asdict(self.changefeed.sink.csv), terminator=self.changefeed.sink.terminator)

    @property
    def io_properties(self) -> dict[str, str]:
        """What a worker needs to open the warehouse's file system."""
        return {key: str(value) for key, value in self.config.catalog.properties.items()}

    def follows(self, schema: str, table: str) -> bool:
        """Whether the config's `tables` ask for this table."""
        return not table or self.changefeed.tables.matches(schema, table)

    def asks_for(self, lineage: Lineage) -> bool:
        """Whether the config's `tables` ask for this table, under any of the names it ever bore."""
        return lineage.was_ever(self.follows)

    @cached_property
    def folds(self) -> Folds:
        return Folds(known_of(self.changefeed))

    @property
    def known(self) -> Known:
        return self.folds.known

    def history(self, new: Sequence[DdlEvent] = ()) -> History:
        """The history of everything told so far and of `new`."""
        return self.folds.of([*self.control.ddl_events(), *new])

    def places(self, history: History) -> dict[str, Place]:
        return places(self.config, self.changefeed, history)

    @staticmethod
    def recorded(record: WatermarkRecord | None) -> dict[str, TableRecord]:
        return {table.lineage: table for table in record.tables} if record else {}

    def lows(self, record: WatermarkRecord | None) -> dict[str, int]:
        """By lineage, the TSO up to which its changelog is complete."""
        return {lineage: table.watermark for lineage, table in self.recorded(record).items()}

    # -- moving tables whose source was renamed ---------------------------------------------------------------------

    def settle_changelogs(self, history: History, record: WatermarkRecord | None) -> dict[str, Identifier]:
        """Bring every changelog to where the history wants it. Gives, by lineage, the names that another table has."""
        wanted = {lineage_id: place.changelog for lineage_id, place in self.places(history).items()}
        return settle(self.catalog, wanted, self._found(history, record, "changelog"))

    def settle_mirrors(self, history: History, record: WatermarkRecord | None) -> None:
        """Bring every mirror to where the history wants it; whose name another table has, its writer refuses that."""
        wanted = {lineage_id: place.mirror for lineage_id, place in self.places(history).items()}
        settle(self.catalog, wanted, self._found(history, record, "mirror"))

    def _found(self, history: History, record: WatermarkRecord | None, kind: str) -> dict[str, Identifier]:
        """Where each table is: as recorded, else at one of the names that its source table bore, newest first. A run
        that ended between moving it and its record has left it there, or on the way."""
        recorded, wanted = self.recorded(record), self.places(history)
        found: dict[str, Identifier] = {}
        for lineage in history.lineages:
            held = tuple(getattr(recorded.get(lineage.id), kind, None) or ())
            if len(lineage.tenures) == 1 and held == getattr(wanted[lineage.id], kind):
                found[lineage.id] = held  # it never had another name
            elif held or len(lineage.tenures) > 1 or lineage.dropped_ts is not None:
                names = [*([held] if held else []), *self._names_borne(history, lineage, kind)]
                at = next((name for name in names if self._holds(name, lineage)), held)
                found.update({lineage.id: at} if at else {})
        return found

    def _names_borne(self, history: History, lineage: Lineage, kind: str) -> Iterator[Identifier]:
        """The names that a table of the lineage may have, and those under which it is on its way from each."""
        borne = [getattr(self.places(history)[lineage.id], kind)]
        for number in range(len(lineage.tenures), 0, -1):
            former = replace(lineage, tenures=lineage.tenures[:number])
            borne.append(getattr(self.places(replace(history, lineages=(former,)))[lineage.id], kind))
        yield from borne
        yield from (parked(lineage.id, name) for name in borne)

    def _holds(self, name: Identifier, lineage: Lineage) -> bool:
        table = load_or_none(self.catalog, name)
        return table is not None and lineage_of(table) == lineage.id
