"""What a lake knows of its tables: from which TSO on, and what it lacks since then.

Whatever answers a question about a time asks here: an answer over a time that the lake does not know is refused, and
one over a time with gaps says what it leaves out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from ticdc_assets.errors import ConfigError
from ticdc_assets.pipeline.load.progress import loaded_ts
from ticdc_assets.pipeline.quarantine import with_quarantine
from ticdc_assets.plurals import counted
from ticdc_assets.schema.ddl_event import gaps_of

if TYPE_CHECKING:
    from ticdc_assets.config import Changefeed
    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.schema.ddl_event import DdlEvent
    from ticdc_assets.schema.history.source_table import History, SourceName, SourceTable
    from ticdc_assets.tables.control.records import TableRecord, WatermarkRecord


KNOWN_FROM: Final = "ticdc.known-from"
LEAVES_OUT: Final = "ticdc.leaves-out"
"""The properties of views, and of snapshots of history tables, that tell a reader in SQL of their knowledge."""


class LackCode(StrEnum):
    """What an answer leaves out. Users alert on the codes, so a code keeps its meaning."""

    OLDER_ROWS = "older_rows"
    GAP = "gap"
    QUARANTINE = "quarantine"
    DISCARDED = "discarded"
    SKIP_FILES = "skip_files"
    SKIP_OFFSETS = "skip_offsets"


@dataclass(frozen=True, slots=True)
class Lack:
    """One thing that is missing; `text` follows "without"."""

    code: LackCode
    text: str

    def as_object(self) -> dict[str, str]:
        """The code and the text as JSON values."""
        return {"code": self.code, "text": self.text}


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What the lake knows of one table.

    begin: the TSO from which on its rows or their changes are known; 0 if they are known since its creation.
    how: what the lake begins with.
    lacks: what is missing since then.
    """

    begin: int
    how: str
    lacks: tuple[Lack, ...] = ()

    @property
    def properties(self) -> dict[str, str]:
        """The knowledge as properties in Iceberg's metadata; `ticdc.leaves-out` is JSON."""
        lacking = json.dumps([lack.as_object() for lack in self.lacks], ensure_ascii=False)
        return {KNOWN_FROM: str(self.begin), LEAVES_OUT: lacking}

    def refusal(self, ts: int) -> str:
        """Why the state of the table at `ts` is not known; "" if it is."""
        return f"it is known from {self.begin} on, {self.how}, and not at {ts}" if ts < self.begin else ""


@dataclass(frozen=True, slots=True)
class LakeKnowledge:
    """What is known of all tables. `loaded_ts` is the TSO of the initial load, `begin` that of the first event, and
    `tables` are the recorded tables by their ids, with the records in quarantine that count. No changes are known
    between the two TSOs of each of `gaps`."""

    changefeed: Changefeed
    loaded_ts: int | None
    begin: int
    tables: Mapping[str, TableRecord]
    gaps: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(
        cls, lake: Lake, record: WatermarkRecord | None, history: History, events: Sequence[DdlEvent]
    ) -> LakeKnowledge:
        """The present knowledge of a lake with this record, and this history of these events."""
        tables = with_quarantine(lake, record.tables if record is not None else (), history)
        return cls._from(lake.changefeed, tables, events)

    @classmethod
    def recorded(cls, lake: Lake, record: WatermarkRecord) -> LakeKnowledge:
        """The knowledge of the tables as of a record: what was in quarantine then is missing, also if not any more."""
        return cls._from(lake.changefeed, record.tables, lake.control.ddl_events())

    @classmethod
    def _from(cls, changefeed: Changefeed, tables: Sequence[TableRecord], events: Sequence[DdlEvent]) -> LakeKnowledge:
        begin = min((event.commit_ts for event in events if event.commit_ts > 0), default=0)
        by_id = {table.source_table: table for table in tables}
        return cls(changefeed, loaded_ts(events), begin, by_id, tuple(gaps_of(events)))

    def require(self, ts: int) -> None:
        """Raise ConfigError where the lake knows no table at `ts`: it began later, with a load, or `ts` is in a gap."""
        if self.loaded_ts is not None and ts < self.loaded_ts:
            where, advice = f"changefeed {self.changefeed.name}", f"Take {self.loaded_ts} or a later TSO."
            raise ConfigError(where, f"a TSO from the initial load on, {self.loaded_ts}", str(ts), advice)
        for begin, end in self.gaps:
            if begin < ts < end:
                where, advice = f"changefeed {self.changefeed.name}", f"Take {begin}, {end} or another TSO outside."
                raise ConfigError(where, f"a TSO outside the gap from {begin} to {end}, of which no changes are known",
                                  str(ts), advice)  # fmt: skip

    def table(self, source_table: SourceTable, until: int, after: int = 0) -> Knowledge:
        """What is known of one table up to the TSO `until`; of gaps, those that end above `after`."""
        names = [(period.schema, period.table) for period in source_table.name_periods]
        missing = (
            *_gaps(source_table, after, until),
            *lacks(self.changefeed, self.tables.get(source_table.id), names, until),
        )
        first = source_table.name_periods[0]
        if source_table.copied_ts and first.after_ts == source_table.copied_ts:
            return Knowledge(source_table.copied_ts, "where it was copied from TiDB", missing)
        if self.loaded_ts is not None and first.after_ts == self.loaded_ts == source_table.first_event_ts:
            return Knowledge(self.loaded_ts, "its initial load", missing)
        if first.after_ts >= source_table.first_event_ts:
            return Knowledge(0, "", missing)
        older = Lack(LackCode.OLDER_ROWS, f"rows from before {self.begin}, until a first change, which adds them")
        return Knowledge(self.begin, "where the stream begins", (older, *missing))


def _gaps(source_table: SourceTable, after: int, until: int) -> Iterator[Lack]:
    for begin, end in source_table.gaps:
        if after < end <= until:
            text = f"the changes between {begin} and {end}: each row that differs has one change, at {end}"
            yield Lack(LackCode.GAP, text)


def lacks(changefeed: Changefeed, table: TableRecord | None, names: Sequence[SourceName], until: int) -> Iterator[Lack]:
    """What a table with these names may lack up to the TSO `until`, of what the changefeed had of it."""
    if table is not None and table.quarantined and (table.quarantined_since or 0) <= until:
        yield Lack(LackCode.QUARANTINE, f"{counted(table.quarantined, 'record')} in quarantine")
    if table is not None and table.discarded:
        yield Lack(LackCode.DISCARDED, f"{counted(table.discarded, 'record')} given up with --discard")
    for glob in changefeed.bad_input.skip_files:
        schema, _, rest = glob.partition("/")
        folder = rest.partition("/")[0] or "*"
        if any(fnmatchcase(name[0], schema) and fnmatchcase(name[1], folder) for name in names):
            yield Lack(LackCode.SKIP_FILES, f"files that `skip_files` gives up ({glob})")
    for rule in changefeed.bad_input.skip_offsets:
        partition = "*" if rule.partition is None else rule.partition
        given_up = f"messages of any table that `skip_offsets` gives up ({rule.topic}[{partition}])"
        yield Lack(LackCode.SKIP_OFFSETS, given_up)


def without(missing: Sequence[Lack]) -> str:
    """What an answer leaves out, as the end of its sentence."""
    return f"; without {', and without '.join(lack.text for lack in missing)}" if missing else ""
