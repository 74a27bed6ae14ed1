"""How the messages of one changefeed are read: its protocol with its options, and how its rows are dated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ticdc_assets.config import CaptureSource
from ticdc_assets.pipeline.stream.decode.task import MessageName, VersionClock
from ticdc_assets.pipeline.stream.scan.avro import true_names
from ticdc_assets.pipeline.stream.scan.result import StreamScan
from ticdc_assets.pipeline.stream.scan.state import StreamForm
from ticdc_assets.pipeline.stream_options import options_of
from ticdc_assets.sources.message_log import CaptureLog

if TYPE_CHECKING:
    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.pipeline.stream.ddl_source import DdlLog
    from ticdc_assets.schema.ddl_event import DdlEvent
    from ticdc_assets.schema.history.source_table import History
    from ticdc_assets.schema.model import TableName
    from ticdc_assets.sources.message_log import MessageLog
    from ticdc_assets.tables.control.records import WatermarkRecord


def message_log(lake: Lake) -> MessageLog:
    """The changefeed's messages at this time: its capture, or the landed messages of its topics."""
    source = lake.changefeed.source
    if isinstance(source, CaptureSource):
        return CaptureLog(source.path)
    from ticdc_assets.pipeline.landing.landed_log import landed_log  # loads pyiceberg, which captures do not need

    return landed_log(lake)


class StreamContext:
    """What the scan, the tasks and the replay of one changefeed share."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self.changefeed = lake.changefeed
        self.log = message_log(lake)
        self.protocol = str(lake.changefeed.sink.protocol)
        self.options: Any = options_of(lake.changefeed, lake.control, origin=lake.origin)

    def refresh(self) -> None:
        """Read the present state of the messages."""
        self.log = message_log(self.lake)

    @property
    def is_appended_to(self) -> bool:
        """Whether new messages come after all others, so that the order of arrival spans all partitions."""
        return self.log.is_appended_to

    @property
    def clock(self) -> VersionClock:
        """What determines the schema version of a row."""
        sink = self.changefeed.sink
        has_statements = self.protocol != "avro" or self.changefeed.schemas.ddl_from is not None or sink.has_watermark
        if not has_statements:
            return VersionClock.POSITION
        return VersionClock.COMMIT_TS if sink.has_commit_ts else VersionClock.COMMIT_MS

    def form(
        self, record: WatermarkRecord | None, log: DdlLog | None, kept_events: Sequence[DdlEvent] = ()
    ) -> StreamForm:
        """How a scan reads the messages after `record`."""
        return StreamForm(
            self.protocol,
            self.options,
            self.clock,
            topics=self.changefeed.sink.dispatch.topics,
            has_commit_ts=self.changefeed.sink.has_commit_ts,
            until=log.tso if log is not None else None,
            newest=record.tso if record is not None and self.clock is VersionClock.COMMIT_TS else 0,
            deletes_are_keys=self.changefeed.sink.content.delete_only_output_handle_key_columns,
            placed={event.origin.place: event.commit_ts for event in kept_events if event.origin.place is not None},
        )

    def names(self, scan: StreamScan, history: History) -> dict[MessageName, TableName | None]:
        """The true names of the tables of an Avro stream."""
        if scan.avro is None:
            return {}
        known = {(t.schema, t.table) for source_table in history.source_tables for t in source_table.name_periods}
        return true_names(scan.avro.names, sorted(known) if self.clock is not VersionClock.POSITION else ())
