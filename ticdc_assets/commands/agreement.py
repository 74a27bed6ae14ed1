"""Whether tables of several changefeeds hold the same: rows as texts that compare, never shown to anybody."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

OURS: Final = "_ticdc_"
"""How the columns begin that are not the source's."""


def texts(rows: Iterable[Mapping[str, Any]], kept: Iterable[str] = ()) -> Counter[str]:
    """Each row as one text, whatever the order of its columns: the source's columns, and those `kept`."""
    wanted = frozenset(kept)
    return Counter(
        repr(sorted((n, _text(v)) for n, v in row.items() if n in wanted or not n.startswith(OURS))) for row in rows
    )


def digest(rows: Iterable[Mapping[str, Any]]) -> str:
    """One number for all rows, whatever their order."""
    whole = hashlib.sha256()
    for text, count in sorted(texts(rows).items()):
        whole.update(f"{count}:{text}\n".encode())
    return whole.hexdigest()


def differing(found: Counter[str], wanted: Counter[str]) -> int:
    """How many rows are in one and not in the other."""
    return (found - wanted).total() + (wanted - found).total()


def _text(cell: Any) -> str:
    if isinstance(cell, datetime):
        moment = cell.astimezone(UTC).replace(tzinfo=None) if cell.tzinfo else cell
        return f"{moment.isoformat(' ', 'microseconds')}{'Z' if cell.tzinfo else ''}"
    if isinstance(cell, list | tuple):
        return "[" + ", ".join(_text(item) for item in cell) + "]"
    if isinstance(cell, Decimal) and cell.as_tuple().exponent == 0:
        return repr(int(cell))  # unsigned BIGINT comes as one or the other
    return repr(cell)
