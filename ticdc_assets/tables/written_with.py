"""Comparison of the history and the settings that a changelog's rows were written with and the current ones.

A changelog keeps both in properties. One of a release that did not keep them takes those of its next run. Histories
differ after a statement arrives late: after rows above its TSO
were written.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import And, BooleanExpression, EqualTo, GreaterThan, GreaterThanOrEqual, LessThanOrEqual
from pyiceberg.table import Table

from ticdc_assets.changes import layout
from ticdc_assets.errors import ConfigError
from ticdc_assets.names import column_name
from ticdc_assets.names.folding import fold
from ticdc_assets.schema.history.written_history import WrittenHistory
from ticdc_assets.schema.history.written_settings import WrittenSettings
from ticdc_assets.tables.progress import Progress, progress_of

HISTORY: Final = "ticdc.history"
SETTINGS: Final = "ticdc.settings"


class Fit(StrEnum):
    """How a changelog fits the current history: all rows fit; rows are missing; or some rows have other columns or
    belong to another source table."""

    FITS = "fits"
    LACKS_ROWS = "lacks rows"
    OTHER_ROWS = "other rows"


def written_history_of(changelog: Table) -> WrittenHistory | None:
    """The history that the rows were written with; None for a changelog of a release that did not keep it."""
    text = changelog.properties.get(HISTORY)
    return None if text is None else WrittenHistory.from_json(text)


@dataclass(frozen=True, slots=True)
class KnownHistory:
    """The current history of a source table whose changelog has rows up to `watermark`."""

    now: WrittenHistory
    watermark: int
    by_arrival: bool

    def fit(self, changelog: Table) -> Fit:
        """Compare the changelog with this history."""
        was = written_history_of(changelog)
        if was is None or was == self.now:
            return Fit.FITS
        if progress_of(changelog) != Progress() and self._has_other_rows(changelog, was):
            return Fit.OTHER_ROWS
        watermark = self._watermark(changelog)
        gained = (after_ts for _, _, after_ts, _ in was.names_gained(self.now))
        return Fit.LACKS_ROWS if any(after_ts < watermark for after_ts in gained) else Fit.FITS

    def noted(self, changelog: Table) -> dict[str, str]:
        """The property to set on a changelog; empty where it is set already or the changelog does not fit."""
        text = self.now.to_json()
        return (
            {} if changelog.properties.get(HISTORY) == text or self.fit(changelog) is not Fit.FITS else {HISTORY: text}
        )

    def has_renumbered_columns(self, changelog: Table) -> bool:
        """Whether a uid of the changelog belongs to another column now."""
        was = written_history_of(changelog)
        return was is not None and was.has_renumbered_columns(self.now)

    def _has_other_rows(self, changelog: Table, was: WrittenHistory) -> bool:
        if was.has_renumbered_columns(self.now):
            return True
        lost = [(after_ts, until_ts) for _, _, after_ts, until_ts in was.names_lost(self.now)]
        columns_ts = None if self.by_arrival else was.other_columns_after(self.now)
        lost += [] if columns_ts is None else [(columns_ts, None)]
        watermark = self._watermark(changelog)
        late = ((after_ts, until_ts) for after_ts, until_ts in lost if after_ts < watermark)
        return any(_has_rows(changelog, _rows(after_ts, until_ts, self.by_arrival)) for after_ts, until_ts in late)

    def _watermark(self, changelog: Table) -> int:
        """The larger watermark: a run that ended before its record has published more."""
        return max(self.watermark, progress_of(changelog).watermark)


def _rows(after_ts: int, until_ts: int | None, by_arrival: bool) -> BooleanExpression:
    """The changes in `(after_ts, until_ts]`. Rows by arrival have no commit_ts, so their version decides."""
    if by_arrival:
        return GreaterThanOrEqual(layout.TABLE_VERSION, after_ts)
    above = GreaterThan(layout.COMMIT_TS, after_ts)
    return above if until_ts is None else And(above, LessThanOrEqual(layout.COMMIT_TS, until_ts))


def _has_rows(changelog: Table, where: BooleanExpression) -> bool:
    rows = changelog.scan(row_filter=where, selected_fields=(layout.TABLE_VERSION,), limit=1)
    return len(rows.to_arrow()) > 0


# -- settings ----------------------------------------------------------------------------------------------------------


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
