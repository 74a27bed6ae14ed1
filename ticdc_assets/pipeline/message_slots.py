"""Which version of its table a row has, decided for one row; `message_batches` decides it for whole arrays."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from ticdc_assets.pipeline.message_task import Dating, MessageTask
from ticdc_assets.pipeline.placed_rows import PlacedRow
from ticdc_assets.protocols.events import RowEvent
from ticdc_assets.schema.lineage import Slot, SourceName
from ticdc_assets.sources.capture import Message
from ticdc_assets.tso import LOGICAL_BITS


def slot_of(
    task: MessageTask, name: SourceName, slots: Sequence[Slot], event: RowEvent, message: Message, ordinal: int
) -> Slot | None:
    """The slot that the row falls in; rows have a slot whose `after_ts` is below their own."""
    if event.by_place:
        placed = PlacedRow.of(event, (message.topic, message.partition), message.offset)
        return task.places.slot(slots, placed)
    if task.dating is Dating.PLACE:
        known = task.versions.get((name, event.schema_version or 0), ordinal)
        return _last_below(slots, known + 1) or slots[0]
    if task.protocol == "simple" and (name, event.schema_version) not in task.versions:
        return _last_below(slots, event.commit_ts or 0) if name in task.told else None
    if event.commit_ts is not None:
        return _last_below(slots, event.commit_ts)
    if task.dating is Dating.COMMIT_MS:
        return _of_millisecond(slots, event)
    return _of_delete(slots, task.placed.get(ordinal, 0))


def _last_below(slots: Sequence[Slot], ts: int) -> Slot | None:
    number = bisect_left([slot.after_ts for slot in slots], ts) - 1
    return slots[number] if number >= 0 else None


def _of_delete(slots: Sequence[Slot], placed: int) -> Slot | None:
    """The newest that has a table, else the first there will be."""
    before = [slot for slot in slots if slot.after_ts < placed and slot.lineage_id is not None]
    return before[-1] if before else next((slot for slot in slots if slot.lineage_id is not None), None)


def _of_millisecond(slots: Sequence[Slot], event: RowEvent) -> Slot | None:
    """Where a statement was committed in the row's millisecond, the row is from before it, as servers still wrote then
    (no server writes rows of a new version so soon), unless it has the columns of after it."""
    assert event.commit_ms is not None
    first = _last_below(slots, event.commit_ms << LOGICAL_BITS)
    within = [s for s in slots if s.after_ts >> LOGICAL_BITS == event.commit_ms]
    return next((slot for slot in (first, *within) if slot is not None and _fits(slot, event)), first)


def _fits(slot: Slot, event: RowEvent) -> bool:
    if slot.version is None:
        return False
    return {c.name.lower() for c in slot.version.table.stored_columns} == {name.lower() for name in event.wire}
