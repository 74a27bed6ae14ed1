"""Rows as a decoder reads them, in the form in which `happened` tells changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ticdc_assets.protocols.events import RowEvent
from ticdc_assets.schema.model import Column, TableSchema
from ticdc_assets_tests.fixtures import Workload
from ticdc_assets_tests.protocols import happened
from ticdc_assets_tests.protocols.happened import Change


def hashable(found: Any) -> Any:
    return tuple(found) if isinstance(found, list) else found


def image(
    shape: TableSchema, wire: Any, zone: str, read: Callable[[Column, Any, str], Any]
) -> tuple[tuple[str, Any], ...] | None:
    """A row's values as the protocol's `value` reads them."""
    if wire is None:
        return None
    return tuple(sorted((n, hashable(read(shape.column(n), v, zone))) for n, v in wire.items()))


def keys_only(change: Change, shapes: happened.Tables) -> Change:
    key = shapes.as_of(change.schema, change.table, change.commit_ts).key
    new, old = (row and tuple(pair for pair in row if pair[0] in key) for row in (change.new, change.old))
    return change._replace(new=new, old=old)


def claims_opened(
    workload: Workload, events: Iterable[Any], open_claim: Callable[[bytes, str], Iterable[Any]]
) -> list[RowEvent]:
    """The row events among them; for one that only names a claim, the row that its file holds."""
    rows = []
    for event in events:
        if isinstance(event, RowEvent) and event.claim:
            (event,) = open_claim((workload.root / "claim-check" / event.claim).read_bytes(), event.claim)
        if isinstance(event, RowEvent):
            rows.append(event)
    return rows
