"""What a lake knows of its tables: from which TSO on, and what it lacks since then.

Whatever answers a question about a time asks here: an answer over a time that the lake does not know is refused, and
one over a time with gaps says what it leaves out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from ticdc_assets.errors import ConfigError
from ticdc_assets.pipeline.load.progress import loaded_ts
from ticdc_assets.pipeline.quarantine import with_quarantine
from ticdc_assets.plurals import counted

if TYPE_CHECKING:
    from ticdc_assets.config import Changefeed
    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.schema.ddl_event import DdlEvent
    from ticdc_assets.schema.history.source_table import History, SourceName, SourceTable
    from ticdc_assets.tables.control.records import TableRecord, WatermarkRecord


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What the lake knows of one table.

    begin: the TSO from which on its rows or their changes are known; 0 if they are known since its creation.
    how: what the lake begins with.
    lacks: what is missing since then, each as a phrase that follows "without".
    """

    begin: int
    how: str
    lacks: tuple[str, ...] = ()

    def refusal(self, ts: int) -> str:
        """Why the state of the table at `ts` is not known; "" if it is."""
        return f"it is known from {self.begin} on, {self.how}, and not at {ts}" if ts < self.begin else ""


@dataclass(frozen=True, slots=True)
class LakeKnowledge:
    """What is known of all tables. `loaded_ts` is the TSO of the initial load, `begin` that of the first event, and
    `tables` are the recorded tables by their ids."""

    changefeed: Changefeed
    loaded_ts: int | None
    begin: int
    tables: Mapping[str, TableRecord]

    @classmethod
    def of(
        cls, lake: Lake, record: WatermarkRecord | None, history: History, events: Sequence[DdlEvent]
    ) -> LakeKnowledge:
        """The knowledge of a lake with this record, and this history of these events."""
        begin = min((event.commit_ts for event in events if event.commit_ts > 0), default=0)
        tables = with_quarantine(lake, record.tables if record is not None else (), history)
        return cls(lake.changefeed, loaded_ts(events), begin, {table.source_table: table for table in tables})

    def require(self, ts: int) -> None:
        """Raise ConfigError where the lake knows no table at `ts`: it began later, with a load."""
        if self.loaded_ts is not None and ts < self.loaded_ts:
            where, advice = f"changefeed {self.changefeed.name}", f"Take {self.loaded_ts} or a later TSO."
            raise ConfigError(where, f"a TSO from the initial load on, {self.loaded_ts}", str(ts), advice)

    def table(self, source_table: SourceTable, until: int) -> Knowledge:
        """What is known of one table up to the TSO `until`."""
        names = [(period.schema, period.table) for period in source_table.name_periods]
        missing = tuple(lacks(self.changefeed, self.tables.get(source_table.id), names, until))
        first = source_table.name_periods[0]
        if self.loaded_ts is not None and first.after_ts == self.loaded_ts == source_table.first_event_ts:
            return Knowledge(self.loaded_ts, "its initial load", missing)
        if first.after_ts >= source_table.first_event_ts:
            return Knowledge(0, "", missing)
        older = f"rows from before {self.begin}, until their first change"
        return Knowledge(self.begin, "where the stream begins", (older, *missing))


def lacks(changefeed: Changefeed, table: TableRecord | None, names: Sequence[SourceName], until: int) -> Iterator[str]:
    """What a table with these names may lack up to the TSO `until`, each as a phrase that follows "without"."""
    if table is not None and table.quarantined and (table.quarantined_since or 0) <= until:
        yield f"{counted(table.quarantined, 'record')} in quarantine"
    if table is not None and table.discarded:
        yield f"{counted(table.discarded, 'record')} given up with --discard"
    for glob in changefeed.bad_input.skip_files:
        schema, _, rest = glob.partition("/")
        folder = rest.partition("/")[0] or "*"
        if any(fnmatchcase(name[0], schema) and fnmatchcase(name[1], folder) for name in names):
            yield f"files that `skip_files` gives up ({glob})"
    for rule in changefeed.bad_input.skip_offsets:
        partition = "*" if rule.partition is None else rule.partition
        yield f"messages of any table that `skip_offsets` gives up ({rule.topic}[{partition}])"


def without(missing: Sequence[str]) -> str:
    """What an answer leaves out, as the end of its sentence."""
    return f"; without {', and without '.join(missing)}" if missing else ""
