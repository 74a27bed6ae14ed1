"""A table of TiDB at a TSO in ranges of its key, each with a bounded number of rows.

Workers read at the same time, each through one connection. A table that cannot be read in ranges has one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from ticdc_assets.sources.upstream.key_ranges import Key, KeyOrder
from ticdc_assets.sources.upstream.sql import image, listed, table_reference

if TYPE_CHECKING:
    from ticdc_assets.sources.upstream.rows import UpstreamRows

Range = tuple[Key | None, Key | None]
"""The keys in `(after, until]`; None is no limit."""

EVERYTHING: Final[Range] = (None, None)

RANGE_ROWS: Final = 20_000

_T = TypeVar("_T")


def ranges_of(
    rows: UpstreamRows,
    name: tuple[str, str],
    order: KeyOrder,
    tso: int,
    of: Range = EVERYTHING,
    range_rows: int | None = None,
) -> Iterator[Range]:
    """The ranges of the table at the TSO, in a part of it if `of` is given. TiDB is asked for the key at the end of
    each."""
    after, end = of
    while order.columns:
        where, parameters = order.condition(after, end)
        statement = (
            f"SELECT {listed(order.columns)} FROM {table_reference(*name)} WHERE {where} "  # noqa: S608
            f"ORDER BY {order.listed} LIMIT 1 OFFSET {(range_rows or RANGE_ROWS) - 1}"
        )
        found = rows.answers(statement, parameters, tso)
        if not found:
            break
        until = tuple(image(order.columns, found[0]).values())
        yield after, until
        after = until
    if after is None or after != end:
        yield after, end


def dealt(items: Sequence[_T], tasks: int) -> list[tuple[int, tuple[_T, ...]]]:
    """The items in at most so many groups of neighbours, each with the number of its first item."""
    step = -(-len(items) // max(1, tasks))
    return [(begin, tuple(items[begin : begin + step])) for begin in range(0, len(items), step)]
