"""Finds the rows whose values do not fit their columns, so that all other rows of a file can be published.

The input is rows of one version as text. The output is typed changes of the valid rows, and a `BadRow` for each other
row. A batch without a fault costs nothing extra; a batch with faults is halved until each bad row is isolated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from ticdc_assets.changes import identity
from ticdc_assets.changes.identity import may_have_faults
from ticdc_assets.changes.typed import TypedChanges, typed
from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols.values import text_columns
from ticdc_assets.schema.model import Kind

if TYPE_CHECKING:
    from ticdc_assets.protocols.columnar.raw_rows import RawRows
    from ticdc_assets.protocols.values.text import TextForms
    from ticdc_assets.schema.model import Column, TableSchema

BAD_RECORDS_MAX: Final = 1000
"""A file with more bad records stops its table: so many are no accident, and they would fill the quarantine."""

ALL_BAD_MIN: Final = 10
"""A file with at least this many records and no valid one: the configuration is wrong, so its table stops."""

_ADVICE: Final = "Check that the table's schema at this commit is the one the row was written with; the record is kept."
_ADVICE_DATES: Final = "Set `zero_dates: null` to take such dates as NULL; the record is kept."
_ADVICE_KEY: Final = "Check the key that the config names for this table; the record is kept."
_ADVICE_KEY_VALUE: Final = "The record is kept; give the row another key at the source."


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that does not fit its columns, by the ordinal of its record. `fault` names the column, never the value."""

    line: int
    has_before: bool
    fault: DecodeError


@dataclass(frozen=True, slots=True)
class RowRules:
    """The rules for rows of one version; `where` is the file."""

    where: str
    table: TableSchema
    forms: TextForms
    zero_dates_allowed: bool


def sound_changes(raw: RawRows, rules: RowRules) -> tuple[TypedChanges, list[BadRow]]:
    """The changes of all valid rows, in input order, and the invalid rows."""
    try:
        return strict_changes(raw, rules), []
    except DecodeError:
        bad = list(_bad_rows(raw, 0, rules))
    keep = np.ones(len(raw), np.bool_)
    keep[[position for position, _ in bad]] = False
    return strict_changes(raw.filter(pa.array(keep)), rules), [row for _, row in bad]


def strict_changes(raw: RawRows, rules: RowRules) -> TypedChanges:
    """The changes of rows that are all valid. Raises DecodeError where one is not, without saying which."""
    changes = typed(raw, rules.table.stored_columns, rules.table.unique_columns, rules.forms)
    if not rules.zero_dates_allowed and _zero_date(raw, rules) is not None:
        raise DecodeError(rules.where, "a date that exists", "a zero date", _ADVICE_DATES)
    if may_have_faults(changes, rules.table.key, rules.forms.zone) and _key_fault(raw, rules) is not None:
        raise DecodeError(rules.where, "a value in every key column", "none", _ADVICE_KEY)
    return changes


def _bad_rows(raw: RawRows, offset: int, rules: RowRules) -> Iterator[tuple[int, BadRow]]:
    """Every bad row with its position. The search stops after BAD_RECORDS_MAX bad rows."""
    try:
        strict_changes(raw, rules)
    except DecodeError:
        if len(raw) == 1:
            yield offset, _described(raw, rules)
            return
        middle = len(raw) // 2
        found = 0
        for half, start in ((raw.slice(0, middle), offset), (raw.slice(middle), offset + middle)):
            for row in _bad_rows(half, start, rules):
                found += 1
                if found > BAD_RECORDS_MAX:
                    raise too_many(rules.where, found) from None
                yield row


def too_many(where: str, found: int) -> DecodeError:
    """The error of a file with too many bad records."""
    return DecodeError(
        where,
        "records of the configured protocol, options and schema",
        f"at least {found} others",
        "Compare the changefeed's options and the table's schema with the file: the table continues when they match. "
        "If TiCDC did not write the file, restore it, or name it in skip_files if its rows may be lost.",
    )


def _described(raw: RawRows, rules: RowRules) -> BadRow:
    line = raw.line[0].as_py()
    has_before = raw.has_before is not None and bool(raw.has_before[0].as_py())
    where = f"{rules.where}, record {line}"
    return BadRow(line, has_before, _first_fault(raw, rules, where))


def _first_fault(raw: RawRows, rules: RowRules, where: str) -> DecodeError:
    for column, text in _cells(raw, rules):
        try:
            text_columns.column(column.type, text, rules.forms)
        except DecodeError as error:
            return DecodeError(f"{where}, column {column.name!r}", error.expected, error.found, _ADVICE)
    name = None if rules.zero_dates_allowed else _zero_date(raw, rules)
    if name is not None:
        return DecodeError(f"{where}, column {name!r}", "a date that exists", "a zero date", _ADVICE_DATES)
    fault = _key_fault(raw, rules)
    if fault is not None:
        name, found = fault
        advice = _ADVICE_KEY if found == identity.NULL else _ADVICE_KEY_VALUE
        return DecodeError(f"{where}, column {name!r}", "a value, since it is of the key", found, advice)
    return DecodeError(where, "values that the table's columns hold", "another one", _ADVICE)


def _cells(raw: RawRows, rules: RowRules) -> Iterator[tuple[Column, pa.Array]]:
    """Every column with its texts: first the new values, then the old values."""
    place = {name: number for number, name in enumerate(raw.columns)}
    for texts in (raw.wire, raw.before or ()):
        for column in rules.table.stored_columns if texts else ():
            if column.name in place:
                yield column, texts[place[column.name]]


def _zero_date(raw: RawRows, rules: RowRules) -> str | None:
    """The first column with a zero date."""
    return next((c.name for c, texts in _cells(raw, rules) if text_columns.zero_dates(c.type, texts)), None)


def _key_fault(raw: RawRows, rules: RowRules) -> tuple[str, str] | None:
    """The first key column, of the new or the old row, without a valid value, and what it has. A mirror cannot hold
    such a row."""
    place = {name: number for number, name in enumerate(raw.columns)}
    images = [(raw.wire, None), *([(raw.before, raw.has_before)] if raw.before and raw.has_before is not None else [])]
    for number in identity.key_columns(rules.table.stored_columns, rules.table.key):
        column = rules.table.stored_columns[number]
        for texts, there in images:
            if column.name not in place:
                return column.name, identity.NULL
            sent = texts[place[column.name]] if there is None else texts[place[column.name]].filter(there)
            found = _fault_among(column, sent, rules)
            if found is not None:
                return column.name, found
    return None


def _fault_among(column: Column, sent: pa.Array, rules: RowRules) -> str | None:
    """The fault of the first invalid key value in these texts."""
    values = text_columns.column(column.type, sent, rules.forms)
    if not values.null_count and not identity.reads_alike(column) and column.type.kind is not Kind.TIMESTAMP:
        return None
    pairs = zip(sent.to_pylist(), values.to_pylist(), strict=True)
    return next(
        (fault for text, value in pairs if (fault := identity.fault_in_key(column, text, value, rules.forms.zone))),
        None,
    )
