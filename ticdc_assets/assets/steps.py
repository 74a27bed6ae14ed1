"""What the definitions of a changefeed share: its names, the tables with assets, and the progress log."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import dagster as dg

from ticdc_assets.assets.hooks import Hooks
from ticdc_assets.assets.keys import FeedNames
from ticdc_assets.assets.known_tables import KnownTable
from ticdc_assets.assets.resources import PROGRESS
from ticdc_assets.assets.translation import translated
from ticdc_assets.errors import SchemaError
from ticdc_assets.names import changelog_identifier, mirror_identifier
from ticdc_assets.names.table_filter import TableFilter
from ticdc_assets.printable import printable
from ticdc_assets.schema.history.source_table import SourceName, fold_name
from ticdc_assets.tables.locations import history_of
from ticdc_assets.work_progress import Count, OnProgress

if TYPE_CHECKING:
    from ticdc_assets.assets.table_status import Reported
    from ticdc_assets.config import DagsterConfig
    from ticdc_assets.names import IdentifierTemplates

CODE_VERSION: Final = "1"
"""Raise this when the same stream gives another result than before."""

SOURCE_TYPES: Final = "Column types are those of Iceberg; a description begins with the type at the source."
"""Shown with the columns."""

DATA_VERSION_TAG: Final = "dagster/data_version"
INPUT_VERSION_TAG: Final = "dagster/input_data_version/{}"
"""The data version of an upstream asset that a materialization was made from, by the asset's key."""


FRESHNESS_WINDOW_MIN: Final = timedelta(minutes=1)
"""Dagster refuses a shorter one."""


@dataclass(frozen=True, slots=True)
class Feed:
    """One changefeed, as the definitions use it. Does not change after the code location has loaded."""

    names: FeedNames
    tables: tuple[KnownTable, ...]
    catalog: str
    target: IdentifierTemplates
    reads_files: bool
    shown: DagsterConfig
    hooks: Hooks = field(default_factory=Hooks)
    history: TableFilter = field(default_factory=lambda: TableFilter(()))

    def translated(self, plain: dg.AssetSpec) -> dg.AssetSpec:
        """The spec that Dagster shows, of one with plain keys."""
        translate = self.hooks.translate
        return plain if translate is None else translated(plain, translate, self.names.renamed)

    @property
    def pool(self) -> str:
        """The pool of all ops that write."""
        return self.hooks.op.pool or self.names.pool

    @property
    def mirrored(self) -> tuple[KnownTable, ...]:
        return tuple(table for table in self.tables if table.has_key)

    @property
    def with_history(self) -> tuple[KnownTable, ...]:
        """The tables for which the config asks for a history."""
        return tuple(table for table in self.mirrored if self.history.matches(table.schema, table.table))

    @property
    def keys(self) -> tuple[dg.AssetKey, ...]:
        """The keys of all assets of a run."""
        names = self.names
        changelogs = (names.changelog(table.schema, table.table) for table in self.tables)
        mirrors = (names.mirror(table.schema, table.table) for table in self.mirrored)
        histories = (names.history(table.schema, table.table) for table in self.with_history)
        return (names.schema_cache, names.quarantine, *changelogs, *mirrors, *histories, names.watermarks)

    @property
    def freshness(self) -> dg.FreshnessPolicy | None:
        """How old the last materialization of a table may be: `max_lag`, with a warning after half of it."""
        if self.shown.max_lag_s is None:
            return None
        fail, half = timedelta(seconds=self.shown.max_lag_s), timedelta(seconds=self.shown.max_lag_s // 2)
        return dg.FreshnessPolicy.time_window(fail, half if half >= FRESHNESS_WINDOW_MIN else None)

    def changelog_metadata(self, table: KnownTable) -> dict[str, str]:
        """Metadata of a changelog's definition, before any run."""
        return self._metadata(table, changelog_identifier)

    def mirror_metadata(self, table: KnownTable) -> dict[str, str]:
        """Metadata of a mirror's definition, before any run."""
        return self._metadata(table, mirror_identifier)

    def history_metadata(self, table: KnownTable) -> dict[str, str]:
        """Metadata of a history's definition, before any run."""
        return self._metadata(table, lambda *of: history_of(mirror_identifier(*of)))

    def _metadata(self, table: KnownTable, identifier: Callable[..., tuple[str, ...]]) -> dict[str, str]:
        metadata = {"source_table": printable(f"{table.schema}.{table.table}")}
        with suppress(SchemaError):  # an impossible name stops that table in a run, and must not stop loading
            parts = identifier(self.target, self.names.changefeed, table.schema, table.table)
            metadata["dagster/table_name"] = ".".join((self.catalog, *parts))
        return metadata

    def without_assets(self, tables: dict[SourceName, Reported]) -> list[Reported]:
        """The tables without an asset in the definitions that this run was started with."""
        known = {fold_name(table.schema, table.table) for table in self.tables}
        return [table for name, table in tables.items() if name not in known]


def progress_logger(context: dg.AssetExecutionContext | dg.OpExecutionContext) -> OnProgress:
    """Writes progress to Dagster's log and to the listener in this process, if there is one."""

    def on_progress(update: str | Count) -> None:
        if isinstance(update, str):  # counts would fill the log
            context.log.info(printable(update))
        listener = PROGRESS.get()
        if listener is not None:
            listener(update)

    return on_progress
