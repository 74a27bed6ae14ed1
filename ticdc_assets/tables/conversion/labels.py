"""Conversions to and from ENUM and SET: see `conversion.convert` for what is promised.

Between labels, and from text, the server looks for an equal label under the column's collation, which is not known
here. A label that is spelt alike is equal under all of them. One that differs in case, or in blanks at its end, is
equal under some; under others a server whose sql_mode is not strict leaves an empty text: it is refused.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from ticdc_assets.schema.arrow_types import CHARACTER_KINDS, INTEGER_BITS
from ticdc_assets.schema.model import Kind, MySqlType
from ticdc_assets.tables.conversion.literals import literal

_MASK_BITS_MAX: Final = 53
"""TiDB converts a SET to a number through a DOUBLE."""
_LABELLED: Final = frozenset({Kind.ENUM, Kind.SET, *CHARACTER_KINDS})


def to_enum(column: str, old: MySqlType, new: MySqlType) -> str | None:
    """To ENUM: from labels and text by label, from integers by position. Text that is only a place is refused."""
    labels = new.elements
    if labels is None:
        return None
    if old.kind in INTEGER_BITS:
        return _chosen(column, [(str(place), label) for place, label in enumerate(labels, start=1)])
    if old.kind not in _LABELLED:
        return None
    empty = [(_text(""), "")] if old.kind is Kind.ENUM else []  # number 0, which stays number 0
    return _chosen(column, [*empty, *((_text(label), label) for label in labels)])


def to_set(column: str, old: MySqlType, new: MySqlType) -> str | None:
    """To SET, printed in the order of the new definition: from labels and text by label, from integers by bits."""
    labels = new.elements
    if labels is None or "" in labels:
        return None
    if old.kind in INTEGER_BITS:
        return _by_bits(column, labels)
    if old.kind not in _LABELLED or (old.kind is Kind.SET and "" in (old.elements or ())):
        return None
    parts = f"split({column}, ',')"
    known = ", ".join(_text(label) for label in labels)
    chosen = _joined([(f"array_contains({parts}, {_text(label)})", label) for label in labels])
    return f"CASE WHEN {column} = '' THEN '' WHEN size(array_except({parts}, array({known}))) = 0 THEN {chosen} END"


def number_of_labels(column: str, old: MySqlType) -> str | None:
    """The number of an ENUM's label or of a SET's labels, as bigint; None where they are not known."""
    if old.elements is None or old.kind not in (Kind.ENUM, Kind.SET):
        return None
    if old.kind is Kind.ENUM:
        # An empty text is number 0 or the empty label: both print alike.
        labels = [(label, place) for place, label in enumerate(old.elements, start=1) if label]
        labels += [] if "" in old.elements else [("", 0)]
        return f"CASE {column} {' '.join(f'WHEN {_text(label)} THEN {place}L' for label, place in labels)} END"
    if "" in old.elements or len(old.elements) > _MASK_BITS_MAX:
        return None
    parts = f"split({column}, ',')"
    bits = (
        f"CASE WHEN array_contains({parts}, {_text(label)}) THEN {1 << bit}L ELSE 0L END"
        for bit, label in enumerate(old.elements)
    )
    return f"CASE WHEN {column} IS NOT NULL THEN {' + '.join(bits)} END"


def _by_bits(column: str, labels: tuple[str, ...]) -> str:
    mask = f"CAST({column} AS bigint)"
    chosen = _joined([(f"({mask} & {1 << bit}L) <> 0", label) for bit, label in enumerate(labels[:63])])
    return f"CASE WHEN {column} BETWEEN 0 AND {(1 << min(len(labels), 63)) - 1} THEN {chosen} END"


def _chosen(value: str, choices: list[tuple[str, str]]) -> str:
    return f"CASE {value} {' '.join(f'WHEN {key} THEN {_text(label)}' for key, label in choices)} END"


def _joined(choices: list[tuple[str, str]]) -> str:
    listed = ", ".join(f"CASE WHEN {condition} THEN {_text(label)} END" for condition, label in choices)
    return f"concat_ws(',', {listed})"


def _text(label: str) -> str:
    return literal(label, pa.string())
