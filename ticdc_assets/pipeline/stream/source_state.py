"""The state of captured messages for a sensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ticdc_assets.config import CaptureSource
from ticdc_assets.pipeline.source_state import SourceState
from ticdc_assets.sources.capture import peek

if TYPE_CHECKING:
    from ticdc_assets.pipeline.lake import Lake


def of_capture(lake: Lake) -> SourceState:
    """A digest of the sizes of the capture's files; none of them is opened."""
    source = lake.changefeed.source
    assert isinstance(source, CaptureSource)
    return SourceState(peek(source.path))
