"""The state of captured messages for a sensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ticdc_assets.config import CaptureSource
from ticdc_assets.pipeline.glance import Glance
from ticdc_assets.sources.capture import peek

if TYPE_CHECKING:
    from ticdc_assets.pipeline.lake import Lake


def of_capture(lake: Lake) -> Glance:
    """A digest of the sizes of the capture's files; none of them is opened."""
    source = lake.changefeed.source
    assert isinstance(source, CaptureSource)
    return Glance(peek(source.path))
