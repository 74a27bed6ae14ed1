"""The names of a changefeed's objects in Dagster: asset keys, ops, jobs, tags.

Every changefeed and table name gives a name that Dagster accepts, and different names stay different. The original
table names are in the metadata, never in tags.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import dagster as dg

from ticdc_assets import names

TAG: Final = "ticdc_assets/changefeed"
CHANGELOG_ENDING: Final = "_changes"
HISTORY_ENDING: Final = "_history"
"""Dagster's graph shows only the last part of a key, so the keys of a mirror, a changelog and a history need different
last parts."""
ENDINGS: Final = {"changelog": CHANGELOG_ENDING, "history": HISTORY_ENDING}
_TAG_CHARS_MAX: Final = 63  # Dagster's limit for tag values


@dataclass(frozen=True, slots=True)
class FeedNames:
    """The names of one changefeed. Op names start with the changefeed's name, as they must differ in a code location.

    The decode op is plain `decode_<protocol>`, unless another changefeed there may have the same protocol. `renamed`
    has the keys that a translation gives, by plain key.
    """

    changefeed: str
    protocol: str
    shares_protocol: bool = False
    renamed: Mapping[dg.AssetKey, dg.AssetKey] = field(default_factory=dict)

    @property
    def plain(self) -> FeedNames:
        """The same without a translation."""
        return replace(self, renamed={})

    # -- keys ---------------------------------------------------------------------------------------------------------

    @property
    def source(self) -> dg.AssetKey:
        return self._key("source")

    @property
    def schema_cache(self) -> dg.AssetKey:
        return self._key("schema_cache")

    @property
    def quarantine(self) -> dg.AssetKey:
        return self._key("quarantine")

    @property
    def watermarks(self) -> dg.AssetKey:
        return self._key("watermarks")

    @property
    def days(self) -> dg.AssetKey:
        return self._key("days")

    def changelog(self, schema: str, table: str) -> dg.AssetKey:
        """`<changefeed>/changelog/<schema>/<table>_changes` in the form that Dagster accepts, or its translation."""
        return self._of_table("changelog", schema, table, CHANGELOG_ENDING)

    def mirror(self, schema: str, table: str) -> dg.AssetKey:
        """`<changefeed>/mirror/<schema>/<table>` in the form that Dagster accepts, or its translation."""
        return self._of_table("mirror", schema, table)

    def history(self, schema: str, table: str) -> dg.AssetKey:
        """`<changefeed>/history/<schema>/<table>_history` in the form that Dagster accepts, or its translation."""
        return self._of_table("history", schema, table, HISTORY_ENDING)

    def _of_table(self, kind: str, schema: str, table: str, ending: str = "") -> dg.AssetKey:
        return self._key(kind, names.asset_key_part(schema), names.asset_key_part(table) + ending)

    def _key(self, *parts: str) -> dg.AssetKey:
        plain = dg.AssetKey([self.changefeed, *parts])
        return self.renamed.get(plain, plain)

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
    def days_op(self) -> str:
        return self._op("days")

    @property
    def checks_op(self) -> str:
        return self._op("checks")

    @property
    def maintenance_op(self) -> str:
        return self._op("maintenance")

    @property
    def replay_op(self) -> str:
        return self._op("replay")

    @property
    def rebuild_op(self) -> str:
        return self._op("rebuild")

    @property
    def as_of_op(self) -> str:
        return self._op("as_of")

    @property
    def resync_op(self) -> str:
        return self._op("resync")

    @property
    def verify_op(self) -> str:
        return self._op("verify")

    def table_checks_op(self, schema: str, table: str) -> str:
        """Each table has an op of its own, so that its failed checks block only what is downstream of it. A long name
        gets a digest."""
        plain = self._op("__".join(("checks", names.asset_key_part(schema), names.asset_key_part(table))))
        short = names.op_name("checks", self.changefeed, schema, table)
        return plain if len(plain) <= names.OP_NAME_CHARS_MAX else short

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
        """Two underscores, so that it is the first of the changefeed's jobs in a list."""
        return f"{self.changefeed}__run"

    @property
    def maintenance_job(self) -> str:
        return f"{self.changefeed}_maintenance"

    @property
    def replay_job(self) -> str:
        return f"{self.changefeed}_replay"

    @property
    def rebuild_job(self) -> str:
        return f"{self.changefeed}_rebuild"

    @property
    def as_of_job(self) -> str:
        return f"{self.changefeed}_as_of"

    @property
    def resync_job(self) -> str:
        return f"{self.changefeed}_resync"

    @property
    def verify_job(self) -> str:
        return f"{self.changefeed}_verify"

    @property
    def verify_schedule(self) -> str:
        return f"{self.changefeed}_verify_every_night"

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
    def pool(self) -> str:
        return f"ticdc_assets/{self.changefeed}"

    @property
    def tags(self) -> dict[str, str]:
        """The tags of runs of this changefeed, by which the run queue starts one at a time."""
        fits = len(self.changefeed) <= _TAG_CHARS_MAX
        return {TAG: self.changefeed if fits else names.op_name(self.changefeed)[-_TAG_CHARS_MAX:].strip("_")}
