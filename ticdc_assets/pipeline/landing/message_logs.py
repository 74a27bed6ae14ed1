"""The message log of a changefeed's source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ticdc_assets.config import CaptureSource
from ticdc_assets.sources.message_log import CaptureLog

if TYPE_CHECKING:
    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.sources.message_log import MessageLog


def message_log(lake: Lake) -> MessageLog:
    """The changefeed's messages at this time: its capture, or the landed messages of its topics."""
    source = lake.changefeed.source
    if isinstance(source, CaptureSource):
        return CaptureLog(source.path)
    from ticdc_assets.pipeline.landing.landed_log import landed_log

    return landed_log(lake)
