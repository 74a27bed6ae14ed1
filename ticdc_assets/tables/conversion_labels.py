"""Conversions to and from ENUM and SET: see `conversions` for what is promised.

Between labels, and from text, the server looks for an equal label under the column's collation and takes the new
definition's spelling. Which collation that is, is not known here. Equality but for ASCII case and trailing spaces is
enough: collations that tell those apart refuse the value, so the server let it through only where they do not.
"""

from __future__ import annotations

import string
from typing import Final

import pyarrow as pa

from ticdc_assets.schema.model import Kind, MySqlType
from ticdc_assets.schema.mysql_types import CHARACTER_KINDS, INTEGER_BITS
from ticdc_assets.tables.mirror_sql import literal

_MASK_BITS_MAX: Final = 53
"""TiDB takes a SET for a number by way of a DOUBLE."""
_LABELLED: Final = frozenset({Kind.ENUM, Kind.SET, *CHARACTER_KINDS})


def to_enum(column: str, old: MySqlType, new: MySqlType) -> str | None:
    """ENUM: out of labels and text by label, out of integers by place. Text that is only a place is refused."""
    labels = new.elements
    if labels is None:
        return None
    if old.kind in INTEGER_BITS:
        return _chosen(column, [(str(place), label) for place, label in enumerate(labels, start=1)])
    if old.kind not in _LABELLED:
        return None
    empty = [(_text(""), "")] if old.kind is Kind.ENUM else []  # number 0, which stays number 0
    return _chosen(_compared(column, labels), [*empty, *((_compared_label(label, labels), label) for label in labels)])


def to_set(column: str, old: MySqlType, new: MySqlType) -> str | None:
    """SET, printed in the order of the new definition: out of labels and text by label, out of integers by bits."""
    labels = new.elements
    if labels is None or "" in labels:
        return None
    if old.kind in INTEGER_BITS:
        return _by_bits(column, labels)
    if old.kind not in _LABELLED or (old.kind is Kind.SET and "" in (old.elements or ())):
        return None
    parts = f"split({_compared(column, labels)}, ',')"
    known = ", ".join(_compared_label(label, labels) for label in labels)
    chosen = _joined([(f"array_contains({parts}, {_compared_label(label, labels)})", label) for label in labels])
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


def _compared(column: str, labels: tuple[str, ...]) -> str:
    if not _is_folding(labels):
        return column
    return f"translate(rtrim({column}), '{string.ascii_uppercase}', '{string.ascii_lowercase}')"


def _compared_label(label: str, labels: tuple[str, ...]) -> str:
    return _text(_folded(label) if _is_folding(labels) else label)


def _is_folding(labels: tuple[str, ...]) -> bool:
    """Whether labels may be compared folded: where two differ by case alone, the collation tells cases apart."""
    return len({_folded(label) for label in labels}) == len(labels)


def _folded(label: str) -> str:
    return label.translate(_FOLDED)


_FOLDED: Final = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def _text(label: str) -> str:
    return literal(label, pa.string())
