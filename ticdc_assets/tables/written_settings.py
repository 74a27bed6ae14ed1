"""Comparison of the settings that a changelog's rows were written with and the current ones.

A changelog keeps its settings in a property. One of a release that did not keep them takes those of its next run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import EqualTo

from ticdc_assets.changes import layout
from ticdc_assets.errors import ConfigError
from ticdc_assets.names import column_name
from ticdc_assets.names.folding import fold
from ticdc_assets.schema.history.written_settings import WrittenSettings
from ticdc_assets.tables.progress import Progress, progress_of

if TYPE_CHECKING:
    from pyiceberg.table import Table

SETTINGS: Final = "ticdc.settings"


@dataclass(frozen=True, slots=True)
class KnownSettings:
    """The current settings of a source table."""

    now: WrittenSettings

    def fault(self, changelog: Table) -> str:
        """Why the changelog's rows cannot be continued with these settings; "" where they can.

        Raises:
            ConfigError: the whole changefeed cannot be continued.
        """
        text = changelog.properties.get(SETTINGS)
        if text is None or text == self.now.to_json() or progress_of(changelog) == Progress():
            return ""
        was = WrittenSettings.from_json(text)
        expected, found = was.refusal_of(self.now)
        if expected:
            advice = "Change it back, or read the source in a changefeed of another name, with another `target`."
            raise ConfigError(".".join(changelog.name()), expected, found, advice)
        return was.change_to(self.now, lambda: self._has_moved_keys(changelog))

    def noted(self, changelog: Table) -> dict[str, str]:
        """The property to set on a changelog; empty where it is set already or the changelog cannot be continued."""
        text = self.now.to_json()
        return {} if changelog.properties.get(SETTINGS) == text or self.fault(changelog) else {SETTINGS: text}

    def _has_moved_keys(self, changelog: Table) -> bool:
        key = [column_name(name) for name in self.now.key]
        lowered = {fold(field.name): field.name for field in changelog.schema().fields}
        names = [lowered[fold(name)] for name in key if fold(name) in lowered]
        if len(names) < len(key):
            return True
        wanted = (*names, *(f"{layout.BEFORE}.{name}" for name in names))
        updates = changelog.scan(row_filter=EqualTo(layout.OP, "U"), selected_fields=wanted).to_arrow_batch_reader()
        return any(_moves(batch, names) for batch in updates)


def _moves(updates: pa.RecordBatch, names: list[str]) -> bool:
    """Whether an update changes one of the columns, or does not have its value from before."""
    if not updates.num_rows:
        return False
    before = updates.column(layout.BEFORE)
    pairs = ((updates.column(name), pc.struct_field(before, name)) for name in names)
    return any(not pc.all(pc.fill_null(pc.equal(new, old), False)).as_py() for new, old in pairs)
