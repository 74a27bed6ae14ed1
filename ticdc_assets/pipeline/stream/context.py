"""How the messages of one changefeed are read: its protocol with its options, how its rows are dated, and the
statements of another changefeed for one whose stream has none (`ddl_from`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ticdc_assets.config import CaptureSource, Changefeed, Config
from ticdc_assets.config.model.sink import Protocol
from ticdc_assets.errors import ConfigError
from ticdc_assets.names import control_namespace
from ticdc_assets.pipeline.stream.decode.task import MessageName, VersionClock
from ticdc_assets.pipeline.stream.scan.avro import true_names
from ticdc_assets.pipeline.stream.scan.result import StreamScan
from ticdc_assets.pipeline.stream.scan.state import StreamForm
from ticdc_assets.pipeline.stream_options import options_of
from ticdc_assets.plurals import counted
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.evolution.schema_state import TruncateRows
from ticdc_assets.schema.history.source_table import History, SourceTable
from ticdc_assets.schema.model import TableName
from ticdc_assets.sources.message_log import CaptureLog, MessageLog
from ticdc_assets.tables.catalog import open_catalog
from ticdc_assets.tables.control.records import WatermarkRecord
from ticdc_assets.tables.control.tables import Control
from ticdc_assets.tso import is_tso

if TYPE_CHECKING:
    from ticdc_assets.pipeline.lake import Lake


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


# -- the statements of another changefeed ------------------------------------------------------------------------------
#
# They are read from its control table `schemas`. Up to its recorded TSO this log is complete; rows above wait until the
# other changefeed has run.


@dataclass(frozen=True, slots=True)
class DdlLog:
    """The statements of the changefeed `name` with a commit_ts up to `tso`."""

    name: str
    tso: int
    events: tuple[DdlEvent, ...]

    @property
    def lacking(self) -> str:
        """Why a row above `tso` is not read yet."""
        seen = f"up to {self.tso}" if self.tso else "none yet"
        return f"expected the statements of changefeed {self.name} up to its rows' commit_ts, found {seen}."

    def last_without_rows(self, source_table: SourceTable) -> int:
        """The TSO of the last statement that leaves no earlier row, 0 where there is none.

        The mirror may pass it at once: later arrivals from before it do not change the mirror.
        """
        emptied = [v.from_ts for v in source_table.versions if any(isinstance(e, TruncateRows) for e in v.effects)]
        return max([ts for ts in (*emptied, source_table.dropped_ts or 0) if ts <= self.tso], default=0)


def ddl_log(config: Config, changefeed: Changefeed) -> DdlLog | None:
    """The log that a changefeed takes its DDL from; None where its own stream has DDL.

    Schemas and columns that the other changefeed found in rows are left out: this changefeed's own rows decide.
    """
    if changefeed.schemas.ddl_from is None:
        return None
    other = config.changefeed(changefeed.schemas.ddl_from)
    control = Control(open_catalog(config.catalog), control_namespace(other.target, other.name))
    record = control.newest()
    tso = record.tso if record else 0
    kept = [e for e in control.ddl_events() if e.commit_ts <= tso and not (e.unexplained or e.lacking or e.displaced)]
    events = tuple(e for e in kept if e.query or e.after is None or not e.after.inferred)
    return DdlLog(other.name, tso, events)


def require_statements(changefeed: Changefeed, kept: Sequence[DdlEvent], record: WatermarkRecord | None) -> None:
    """Raise ConfigError where `ddl_from` was removed, or named after the first run: rows that are read again would be
    of other tables than those that the statements, or the order of the messages, made."""
    if changefeed.sink.protocol != Protocol.AVRO or changefeed.sink.has_watermark:
        return
    where, advice = f"changefeed {changefeed.name}", "or read the stream in a changefeed of another name, with another"
    is_told = any(event.query and event.commit_ts > 0 and not event.loaded for event in kept)
    if is_told and changefeed.schemas.ddl_from is None:
        expected = "the statements of another changefeed (`ddl_from`), with which earlier runs have read"
        raise ConfigError(where, expected, "none", f"Name it again, {advice} `target`.")
    if changefeed.schemas.ddl_from is not None and record is not None and record.tso and not is_tso(record.tso):
        expected = f"no `ddl_from`: earlier runs have read {counted(record.tso, 'message')} without statements"
        raise ConfigError(where, expected, changefeed.schemas.ddl_from, f"Remove it, {advice} `target`.")
