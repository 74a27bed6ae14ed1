"""What the definitions of a changefeed share: its names, the tables with assets, and how its steps behave."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import dagster as dg

from ticdc_assets.assets.keys import FeedNames
from ticdc_assets.assets.known_tables import KnownTable
from ticdc_assets.assets.resources import PROGRESS
from ticdc_assets.errors import SchemaError
from ticdc_assets.names import changelog_identifier, mirror_identifier
from ticdc_assets.schema.lineage import SourceName, fold_name

if TYPE_CHECKING:
    from ticdc_assets.assets.reported import Reported
    from ticdc_assets.names import Target

CODE_VERSION: Final = "1"
"""Raised when the same stream would come out otherwise than before."""

SOURCE_TYPES: Final = "Types of columns are told as the source has them."
"""What the shown columns need beside them: what they are stored as is another type."""

DATA_VERSION_TAG: Final = "dagster/data_version"


@dataclass(frozen=True, slots=True)
class Feed:
    """One changefeed as the definitions know it: fixed when the code location loads."""

    names: FeedNames
    tables: tuple[KnownTable, ...]
    catalog: str
    target: Target
    reads_files: bool

    @property
    def mirrored(self) -> tuple[KnownTable, ...]:
        return tuple(table for table in self.tables if table.has_key)

    @property
    def keys(self) -> tuple[dg.AssetKey, ...]:
        """The keys of all assets that a run makes."""
        names = self.names
        changelogs = (names.changelog(table.schema, table.table) for table in self.tables)
        mirrors = (names.mirror(table.schema, table.table) for table in self.mirrored)
        return (names.schema_cache, names.quarantine, *changelogs, *mirrors, names.watermarks)

    def changelog_metadata(self, table: KnownTable) -> dict[str, str]:
        """What a changelog's definition tells before anything has run."""
        return self._metadata(table, changelog_identifier)

    def mirror_metadata(self, table: KnownTable) -> dict[str, str]:
        """What a mirror's definition tells before anything has run."""
        return self._metadata(table, mirror_identifier)

    def _metadata(self, table: KnownTable, identifier: Callable[..., tuple[str, ...]]) -> dict[str, str]:
        told = {"source_table": f"{table.schema}.{table.table}"}
        with suppress(SchemaError):  # a name that cannot be had stops that table when it runs, and loading nothing
            parts = identifier(self.target, self.names.changefeed, table.schema, table.table)
            told["dagster/table_name"] = ".".join((self.catalog, *parts))
        return told

    def without_assets(self, found: dict[SourceName, Reported]) -> list[Reported]:
        """What was found and has no asset in the definitions that this run was started with."""
        known = {fold_name(table.schema, table.table) for table in self.tables}
        return [table for name, table in found.items() if name not in known]


def sayer(context: dg.AssetExecutionContext) -> Callable[[str], None]:
    """Tells progress to Dagster's log, and to whoever else listens in this process."""

    def say(text: str) -> None:
        context.log.info(text)
        listener = PROGRESS.get()
        if listener is not None:
            listener(text)

    return say
