"""Compares tables of several changefeeds: each row as one text, which is never printed."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

OURS: Final = "_ticdc_"
"""The prefix of columns that this project adds."""


def texts(rows: Iterable[Mapping[str, Any]], kept: Iterable[str] = ()) -> Counter[str]:
    """Each row as one text, independent of column order: the source's columns, and those in `kept`."""
    wanted = frozenset(kept)
    return Counter(
        repr(sorted((n, _text(v)) for n, v in row.items() if n in wanted or not n.startswith(OURS))) for row in rows
    )


def digest(rows: Iterable[Mapping[str, Any]]) -> str:
    """One digest of all rows, independent of their order."""
    whole = hashlib.sha256()
    for text, count in sorted(texts(rows).items()):
        whole.update(f"{count}:{text}\n".encode())
    return whole.hexdigest()


def differing_rows(found: Counter[str], wanted: Counter[str]) -> int:
    """How many rows are in one collection and not in the other."""
    return (found - wanted).total() + (wanted - found).total()


def _text(cell: Any) -> str:
    if isinstance(cell, datetime):
        moment = cell.astimezone(UTC).replace(tzinfo=None) if cell.tzinfo else cell
        return f"{moment.isoformat(' ', 'microseconds')}{'Z' if cell.tzinfo else ''}"
    if isinstance(cell, list | tuple):
        return "[" + ", ".join(_text(item) for item in cell) + "]"
    if isinstance(cell, Decimal) and cell.as_tuple().exponent == 0:
        return repr(int(cell))  # unsigned BIGINT is an int or a Decimal, depending on the protocol
    return repr(cell)
