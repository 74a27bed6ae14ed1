"""The state of a bucket for a sensor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ticdc_assets.errors import NotYetError
from ticdc_assets.pipeline.source_state import SourceState
from ticdc_assets.sources.filesystem import open_root
from ticdc_assets.sources.storage.paths import Layout
from ticdc_assets.sources.storage.scan import peek

if TYPE_CHECKING:
    from ticdc_assets.pipeline.lake import Lake

_NO_CHECKPOINT: Final = "TiCDC has written no checkpoint yet; check the path and that the changefeed is running."


def source_state(lake: Lake) -> SourceState:
    """The checkpoint, and a digest of the newest files. Raises SourceError where the bucket cannot be read."""
    try:
        checkpoint, digest = peek(open_root(lake.storage_uri), Layout.of(lake.changefeed.sink))
    except NotYetError as error:
        return SourceState("", not_yet=str(error))
    return SourceState(digest, checkpoint, "" if checkpoint is not None else _NO_CHECKPOINT)
