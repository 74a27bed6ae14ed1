"""Rows that parse but whose values their columns cannot hold: found one by one, so that the others go on.

In go rows of one version as text, out come the typed changes of the sound ones and a `BadRow` for each of the rest.
A batch without fault costs nothing extra; in one with faults, halves are tried until each bad row stands alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from ticdc_assets.changes import keys
from ticdc_assets.changes.keys import may_have_faults
from ticdc_assets.changes.typed import TypedChanges, typed
from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols import text_columns

if TYPE_CHECKING:
    from ticdc_assets.protocols.raw_rows import RawRows
    from ticdc_assets.protocols.text_values import TextForms
    from ticdc_assets.schema.model import Column, TableSchema

BAD_RECORDS_MAX: Final = 1000
"""Bad records of one file that are set aside; more are no accident of single records, and would fill the quarantine."""

ALL_BAD_MIN: Final = 10
"""So many records of a file and not one good: then the configuration is wrong, and nothing may pass unread."""

_TODO: Final = "Check that the table's schema at this commit is the one the row was written with; the record is kept."
_TODO_DATES: Final = "Set `zero_dates: null` to take such dates as NULL; the record is kept."
_TODO_KEY: Final = "Check the key that the config names for this table; the record is kept."
_TODO_KEY_VALUE: Final = "The record is kept; give the row another key at the source."


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that its columns cannot hold, by the ordinal of its record. `fault` names the column, never the value."""

    line: int
    has_before: bool
    fault: DecodeError


@dataclass(frozen=True, slots=True)
class RowRules:
    """What rows of one version must keep to; `where` is the file."""

    where: str
    table: TableSchema
    forms: TextForms
    zero_dates_allowed: bool

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.table.stored_columns


def sound_changes(raw: RawRows, rules: RowRules) -> tuple[TypedChanges, list[BadRow]]:
    """The changes of all rows that keep the rules, in their order, and the rows that do not."""
    try:
        return _strict(raw, rules), []
    except DecodeError:
        bad = list(_bad_rows(raw, 0, rules))
    keep = np.ones(len(raw), np.bool_)
    keep[[position for position, _ in bad]] = False
    return _strict(raw.filter(pa.array(keep)), rules), [row for _, row in bad]


def _strict(raw: RawRows, rules: RowRules) -> TypedChanges:
    changes = typed(raw, rules.columns, rules.table.unique_columns, rules.forms)
    if not rules.zero_dates_allowed and _zero_date(raw, rules) is not None:
        raise _fault(rules.where, "a date of the calendar", "a zero date", _TODO_DATES)
    if may_have_faults(changes, rules.table.key) and _key_fault(raw, rules) is not None:
        raise _fault(rules.where, "a value in every key column", "none", _TODO_KEY)
    return changes


def _bad_rows(raw: RawRows, offset: int, rules: RowRules) -> Iterator[tuple[int, BadRow]]:
    """Every bad row with its position; more than BAD_RECORDS_MAX are not looked for by halves of halves."""
    try:
        _strict(raw, rules)
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
    """The error of a file with so many bad records that none of them can be an accident."""
    return DecodeError(
        where,
        "records of the configured protocol, options and schema",
        f"at least {found} others",
        "Compare the changefeed's options and the table's schema with the file; the table goes on when they fit.",
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
            return _fault(f"{where}, column {column.name!r}", error.expected, error.found, _TODO)
    name = None if rules.zero_dates_allowed else _zero_date(raw, rules)
    if name is not None:
        return _fault(f"{where}, column {name!r}", "a date of the calendar", "a zero date", _TODO_DATES)
    fault = _key_fault(raw, rules)
    if fault is not None:
        name, found = fault
        todo = _TODO_KEY if found == keys.NULL else _TODO_KEY_VALUE
        return _fault(f"{where}, column {name!r}", "a value, since it is of the key", found, todo)
    return _fault(where, "values that the table's columns hold", "another one", _TODO)


def _cells(raw: RawRows, rules: RowRules) -> Iterator[tuple[Column, pa.Array]]:
    """Every column with its texts, the old values after the new ones."""
    place = {name: number for number, name in enumerate(raw.columns)}
    for texts in (raw.wire, raw.before or ()):
        for column in rules.columns if texts else ():
            if column.name in place:
                yield column, texts[place[column.name]]


def _zero_date(raw: RawRows, rules: RowRules) -> str | None:
    """The first column with a zero date."""
    return next((c.name for c, texts in _cells(raw, rules) if text_columns.zero_dates(c.type, texts)), None)


def _key_fault(raw: RawRows, rules: RowRules) -> tuple[str, str] | None:
    """The first column of a key, new or old, that lacks a value of its own, and what is there: no mirror could hold
    such a row."""
    place = {name: number for number, name in enumerate(raw.columns)}
    images = [(raw.wire, None), *([(raw.before, raw.has_before)] if raw.before and raw.has_before is not None else [])]
    for number in keys.key_columns(rules.columns, rules.table.key):
        column = rules.columns[number]
        for texts, there in images:
            if column.name not in place:
                return column.name, keys.NULL
            sent = texts[place[column.name]] if there is None else texts[place[column.name]].filter(there)
            found = _fault_among(column, sent, rules)
            if found is not None:
                return column.name, found
    return None


def _fault_among(column: Column, sent: pa.Array, rules: RowRules) -> str | None:
    """What is wrong with the first key value that is not one, of these texts."""
    values = text_columns.column(column.type, sent, rules.forms)
    if not values.null_count and not keys.reads_alike(column):
        return None
    pairs = zip(sent.to_pylist(), values.to_pylist(), strict=True)
    return next((fault for text, value in pairs if (fault := keys.fault_in_key(column, text, value))), None)


def _fault(where: str, expected: str, found: str, todo: str) -> DecodeError:
    return DecodeError(where, expected, found, todo)
