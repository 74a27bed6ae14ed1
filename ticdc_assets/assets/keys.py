"""The names of a changefeed's objects in Dagster: asset keys, ops, jobs, tags.

Every changefeed and table name gives a name that Dagster accepts, and different names stay different. The original
table names are in the metadata, never in tags.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import dagster as dg

from ticdc_assets import names

TAG: Final = "ticdc_assets/changefeed"
CHANGELOG_ENDING: Final = "_changes"
"""Dagster's graph shows the last part of a key only, and a changelog and its mirror stand side by side there."""
_TAG_CHARS_MAX: Final = 63  # Dagster's limit for tag values


@dataclass(frozen=True, slots=True)
class FeedNames:
    """The names of one changefeed. Op names start with the changefeed's name, as they must differ in a code location.

    The decode op is plain `decode_<protocol>`, unless another changefeed there may have the same protocol.
    """

    changefeed: str
    protocol: str
    shares_protocol: bool = False

    # -- keys ---------------------------------------------------------------------------------------------------------

    @property
    def source(self) -> dg.AssetKey:
        return dg.AssetKey([self.changefeed, "source"])

    @property
    def schema_cache(self) -> dg.AssetKey:
        return dg.AssetKey([self.changefeed, "schema_cache"])

    @property
    def quarantine(self) -> dg.AssetKey:
        return dg.AssetKey([self.changefeed, "quarantine"])

    @property
    def watermarks(self) -> dg.AssetKey:
        return dg.AssetKey([self.changefeed, "watermarks"])

    @property
    def days(self) -> dg.AssetKey:
        return dg.AssetKey([self.changefeed, "days"])

    def changelog(self, schema: str, table: str) -> dg.AssetKey:
        """`<changefeed>/changelog/<schema>/<table>_changes`, with names in the form that Dagster accepts."""
        return self._key("changelog", schema, table, CHANGELOG_ENDING)

    def mirror(self, schema: str, table: str) -> dg.AssetKey:
        """`<changefeed>/mirror/<schema>/<table>`, with names in the form that Dagster accepts."""
        return self._key("mirror", schema, table)

    def _key(self, kind: str, schema: str, table: str, ending: str = "") -> dg.AssetKey:
        return dg.AssetKey([self.changefeed, kind, names.asset_key_part(schema), names.asset_key_part(table) + ending])

    # -- ops ----------------------------------------------------------------------------------------------------------

    @property
    def decode_op(self) -> str:
        plain = f"decode_{self.protocol.replace('-', '_')}"
        return self._op(plain) if self.shares_protocol else plain

    @property
    def schema_cache_op(self) -> str:
        return self._op("schema_cache")

    @property
    def mirrors_op(self) -> str:
        return self._op("mirrors")

    @property
    def checks_op(self) -> str:
        return self._op("checks")

    @property
    def maintenance_op(self) -> str:
        return self._op("maintenance")

    @property
    def rebuild_op(self) -> str:
        return self._op("rebuild")

    def table_checks_op(self, schema: str, table: str) -> str:
        """Each table has an op of its own, so that its failed checks block only what is downstream of it."""
        return names.op_name("checks", self.changefeed, schema, table)

    def _op(self, name: str) -> str:
        return f"{self.changefeed}__{name}"

    # -- the rest -----------------------------------------------------------------------------------------------------

    @property
    def group(self) -> str:
        return self.changefeed

    @property
    def resource(self) -> str:
        return f"{self.changefeed}_lake"

    @property
    def job(self) -> str:
        return f"{self.changefeed}_job"

    @property
    def maintenance_job(self) -> str:
        return f"{self.changefeed}_maintenance"

    @property
    def rebuild_job(self) -> str:
        return f"{self.changefeed}_rebuild"

    @property
    def maintenance_schedule(self) -> str:
        return f"{self.changefeed}_maintenance_every_night"

    @property
    def files_sensor(self) -> str:
        return f"{self.changefeed}_new_files"

    @property
    def messages_sensor(self) -> str:
        return f"{self.changefeed}_new_messages"

    @property
    def schedule(self) -> str:
        return f"{self.changefeed}_every_10_minutes"

    @property
    def pool(self) -> str:
        return f"ticdc_assets/{self.changefeed}"

    @property
    def tags(self) -> dict[str, str]:
        """The tags of runs of this changefeed, by which the run queue starts one at a time."""
        fits = len(self.changefeed) <= _TAG_CHARS_MAX
        return {TAG: self.changefeed if fits else names.op_name(self.changefeed)[-_TAG_CHARS_MAX:].strip("_")}
