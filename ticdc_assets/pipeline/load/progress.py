"""How far the initial load of a changefeed is, and what a run of the stream must respect of it.

Until a load is finished, the newest record has a cursor that names the dump's TSO. Afterwards the cursor is empty: the
stream is read from its beginning, and what the dump has of it belongs to source tables that are `is_contained`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from ticdc_assets.errors import SourceError
from ticdc_assets.notes import Note, NoteCode
from ticdc_assets.pipeline.commit_range import CommitRange, Hold, TableState

if TYPE_CHECKING:
    from ticdc_assets.schema.ddl_event import DdlEvent
    from ticdc_assets.tables.control.records import WatermarkRecord

_LOAD: Final = "load"
FINISHED: Final = ""
"""The cursor of a record after the load: nothing of the stream is consumed."""


def unfinished_cursor(ts: int) -> str:
    """The cursor while a dump of this TSO is loaded."""
    return json.dumps({_LOAD: ts})


def unfinished_ts(record: WatermarkRecord | None) -> int | None:
    """The TSO of the dump that is being loaded; None where no load is unfinished."""
    if record is None or not record.cursor.startswith("{"):
        return None
    found = json.loads(record.cursor).get(_LOAD)
    return int(found) if found is not None else None


def require_finished(changefeed: str, record: WatermarkRecord | None) -> None:
    """Raise SourceError where a load is unfinished: rows of the stream would hide that rows of the dump are missing."""
    ts = unfinished_ts(record)
    if ts is not None:
        raise SourceError(
            f"changefeed {changefeed}",
            "a finished initial load",
            f"one at {ts} that has not ended",
            "Run the same `ticdc-assets load` again; it continues with the tables that are missing.",
        )


def loaded_ts(events: Iterable[DdlEvent]) -> int | None:
    """The TSO of the dump that was loaded; None where none was."""
    return next((event.commit_ts for event in events if event.loaded), None)


def behind_the_load(
    events: Iterable[DdlEvent], commit_ranges: Mapping[str, CommitRange], reached: int
) -> dict[str, Hold]:
    """The holds of tables that no dump had, while the stream is complete only up to `reached`, below the dump's TSO:
    recorded at that TSO, they would lack rows."""
    ts = loaded_ts(events)
    if ts is None or reached >= ts:
        return {}
    sentence = f"expected the stream to be complete up to {ts}, the TSO of the initial load, found {reached}. It waits."
    return {
        i: Hold(TableState.WAITING, Note(NoteCode.NOT_LOADED, sentence))
        for i, found in commit_ranges.items()
        if found.low < ts
    }
