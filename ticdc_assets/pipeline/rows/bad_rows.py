"""Finds the rows whose values do not fit their columns, so that all other rows of a file can be published.

The input is rows of one version with the values that were sent. The output is typed changes of the valid rows, and a
`BadRow` for each other row. A batch without a fault costs nothing extra; a batch with faults is halved until each bad
row is isolated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from ticdc_assets.changes import identity
from ticdc_assets.changes.identity import may_have_faults
from ticdc_assets.changes.typed import Reading, TypedChanges, text_reading, with_types
from ticdc_assets.errors import DecodeError
from ticdc_assets.names.folding import fold
from ticdc_assets.pipeline.rows.fit import own_name
from ticdc_assets.protocols.values.text import DATE_KINDS, TextForms
from ticdc_assets.schema.model import Column, Kind, TableSchema

if TYPE_CHECKING:
    from ticdc_assets.protocols.columnar.raw_rows import RawRows

BAD_RECORDS_MAX: Final = 1000
"""A file with more bad records stops its table: so many are no accident, and they would fill the quarantine."""

ALL_BAD_MIN: Final = 10
"""A file with at least this many records and no valid one: the configuration is wrong, so its table stops."""

_ADVICE: Final = "Check that the table's schema at this commit is the one the row was written with; the record is kept."
_ADVICE_DATES: Final = "Set `zero_dates: null` to take such dates as NULL; the record is kept."
_ADVICE_KEY: Final = "Check the key that the config names for this table; the record is kept."
_ADVICE_KEY_VALUE: Final = "The record is kept; give the row another key at the source."


class FaultKind(StrEnum):
    """What is wrong with a row."""

    VALUE = "value"
    ZERO_DATE = "zero date"
    KEY = "key"


@dataclass(frozen=True, slots=True)
class RowFault:
    """The first fault of a row: its column, and what was expected and found, never the value."""

    kind: FaultKind
    column: str
    expected: str
    found: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that does not fit its columns, by its index among the rows and the ordinal of its record."""

    index: int
    line: int
    has_before: bool
    fault: DecodeError


@dataclass(frozen=True, slots=True)
class RowRules:
    """The rules for rows of one version.

    describe: (fault, line) to the error of a row.
    spelling: how a column of the table is named in rows.
    bad_max: more bad rows than this are no accident: an error that `where` begins is raised.
    allows_old_zero_dates: whether old values may have them in any case.
    """

    where: str
    table: TableSchema
    reading: Reading
    zero_dates_allowed: bool
    describe: Callable[[RowFault, int], DecodeError]
    spelling: Callable[[Column], str] = own_name
    bad_max: int | None = None
    allows_old_zero_dates: bool = False

    def places(self, names: Sequence[str]) -> list[int | None]:
        """For each column of the table, its index among the columns of the rows."""
        there = {fold(name): place for place, name in enumerate(names)}
        return [there.get(fold(self.spelling(column))) for column in self.table.stored_columns]


def rules_of_file(where: str, table: TableSchema, forms: TextForms, zero_dates_allowed: bool) -> RowRules:
    """The rules for the texts of a file."""
    reading, describe = text_reading(forms), partial(_fault_of_record, where)
    return RowRules(where, table, reading, zero_dates_allowed, describe, bad_max=BAD_RECORDS_MAX)


def _fault_of_record(where: str, fault: RowFault, line: int) -> DecodeError:
    where = f"{where}, record {line}"
    column = f"{where}, column {fault.column!r}"
    if fault.kind is FaultKind.VALUE:
        return DecodeError(column, fault.expected, fault.found, _ADVICE)
    if fault.kind is FaultKind.ZERO_DATE:
        return DecodeError(column, fault.expected, fault.found, _ADVICE_DATES)
    advice = _ADVICE_KEY if fault.found == identity.NULL else _ADVICE_KEY_VALUE
    return DecodeError(column, "a value, since it is of the key", fault.found, advice)


def sound_changes(raw: RawRows, rules: RowRules) -> tuple[TypedChanges, list[BadRow]]:
    """The changes of all valid rows, in input order, and the invalid rows."""
    try:
        return strict_changes(raw, rules), []
    except DecodeError:
        bad = list(_bad_rows(raw, 0, rules))
    keep = np.ones(len(raw), np.bool_)
    keep[[row.index for row in bad]] = False
    return strict_changes(raw.filter(pa.array(keep)), rules), bad


def strict_changes(raw: RawRows, rules: RowRules) -> TypedChanges:
    """The changes of rows that are all valid. Raises DecodeError where one is not, without saying which."""
    changes = with_types(raw, rules.table.stored_columns, rules.places(raw.columns), rules.reading)
    if not rules.zero_dates_allowed and _zero_date(raw, changes, rules) is not None:
        raise DecodeError(rules.where, "dates that exist", "a zero date", "")
    reading = rules.reading
    if may_have_faults(changes, rules.table.key, None if reading.names_zones else reading.zone) and (
        not reading.is_exact or _key_fault(raw, changes, rules) is not None
    ):
        raise DecodeError(rules.where, "a value in every key column", "none", "")
    return changes


def _bad_rows(raw: RawRows, offset: int, rules: RowRules) -> Iterator[BadRow]:
    """Every bad row, by its index from `offset` on. The search stops after too many."""
    try:
        strict_changes(raw, rules)
    except DecodeError:
        if len(raw) == 1:
            yield _described(raw, offset, rules)
            return
        middle = len(raw) // 2
        found = 0
        for half, start in ((raw.slice(0, middle), offset), (raw.slice(middle), offset + middle)):
            for row in _bad_rows(half, start, rules):
                found += 1
                if rules.bad_max is not None and found > rules.bad_max:
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


def _described(raw: RawRows, index: int, rules: RowRules) -> BadRow:
    """The first fault of a single row."""
    line = raw.line[0].as_py()
    has_before = raw.has_before is not None and bool(raw.has_before[0].as_py())
    return BadRow(index, line, has_before, rules.describe(_first_fault(raw, rules), line))


def _first_fault(raw: RawRows, rules: RowRules) -> RowFault:
    table, places = rules.table, rules.places(raw.columns)
    for sent in (raw.wire, raw.before or ()):
        for column, place in zip(table.stored_columns, places, strict=True) if sent else ():
            if place is not None:
                try:
                    rules.reading.cast(column, sent[place])
                except DecodeError as error:
                    return RowFault(FaultKind.VALUE, column.name, error.expected, error.found, error.advice)
    changes = with_types(raw, table.stored_columns, places, rules.reading)
    name = None if rules.zero_dates_allowed else _zero_date(raw, changes, rules)
    if name is not None:
        return RowFault(FaultKind.ZERO_DATE, name, "a date that exists", "a zero date")
    fault = _key_fault(raw, changes, rules)
    assert fault is not None
    return RowFault(FaultKind.KEY, fault[0], "a value", fault[1])


def _zero_date(raw: RawRows, changes: TypedChanges, rules: RowRules) -> str | None:
    """The first column with a zero date: it was sent, and no date of the calendar is its value."""
    places = rules.places(raw.columns)
    images = [(raw.wire, changes.now)]
    if raw.before is not None and not rules.allows_old_zero_dates:
        images.append((raw.before, changes.before))
    for sent, values in images:
        for column, place, cast in zip(changes.columns, places, values, strict=True):
            if place is not None and column.type.kind in DATE_KINDS and cast.null_count > sent[place].null_count:
                return column.name
    return None


def _key_fault(raw: RawRows, changes: TypedChanges, rules: RowRules) -> tuple[str, str] | None:
    """The first key column, of the new or the old row, without a valid value, and what it has. A mirror cannot hold
    such a row."""
    places = rules.places(raw.columns)
    for number in identity.key_columns(changes.columns, rules.table.key):
        column, place = changes.columns[number], places[number]
        if place is None:
            return column.name, identity.NULL
        found = _fault_among(column, raw.wire[place], changes.now[number], rules)
        if found is None and raw.before is not None:
            there = raw.has_before
            found = _fault_among(column, raw.before[place].filter(there), changes.before[number].filter(there), rules)
        if found is not None:
            return column.name, found
    return None


def _fault_among(column: Column, sent: pa.Array, values: pa.Array, rules: RowRules) -> str | None:
    """The fault of the first invalid value of a key column."""
    if not values.null_count and not identity.reads_alike(column) and column.type.kind is not Kind.TIMESTAMP:
        return None
    pairs = zip(rules.reading.wires(sent), values.to_pylist(), strict=True)
    return next(
        (fault for wire, value in pairs if (fault := identity.fault_in_key(column, wire, value, rules.reading.zone))),
        None,
    )
