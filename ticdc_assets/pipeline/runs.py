"""The run that fits a changefeed's source. What the other one needs is not imported: that takes longer than to look."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ticdc_assets.config import CaptureSource, StorageSource
from ticdc_assets.errors import ConfigError

if TYPE_CHECKING:
    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.pipeline.message_run import MessageRun
    from ticdc_assets.pipeline.storage_run import StorageRun


def run_of(lake: Lake, until: int | None = None) -> StorageRun | MessageRun:
    """A run of the changefeed, up to the TSO `until` where given. Raises ConfigError where no TSO tells rows apart."""
    if until is not None and lake.by_arrival:
        found = "a stream that is read in the order of arrival"
        todo = "Run it without --until; in Dagster, without `until`."
        raise ConfigError(f"changefeed {lake.changefeed.name}", "a stream that can be cut at a TSO", found, todo)
    match lake.changefeed.source:
        case StorageSource():
            from ticdc_assets.pipeline.storage_run import StorageRun

            return StorageRun(lake, until)
        case CaptureSource():
            from ticdc_assets.pipeline.message_run import MessageRun

            return MessageRun(lake, until)
        case _:
            raise ConfigError(
                f"changefeeds.{lake.changefeed.name}.source",
                "storage or capture",
                "kafka",
                "Capture the topics with `ticdc-assets capture --to FOLDER`, then name that folder in source.capture.",
            )
