"""What is loaded of a dump and how it is read, the tables that are not loaded yet, and the tasks of workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ticdc_assets.pipeline.source import Pending
from ticdc_assets.protocols.dump.form import DumpForm

if TYPE_CHECKING:
    from ticdc_assets.pipeline.tasks import Target, TaskFile
    from ticdc_assets.schema.history.source_table import SourceName, Version
    from ticdc_assets.sources.dump.listing import Dump, DumpedTable


@dataclass(frozen=True, slots=True)
class DumpRequest:
    """A dump and how it is read: its place, its TSO, Dumpling's flags, and the zone of its TIMESTAMPs. The tables in
    `without` (folded names) are left to the stream."""

    dump: Dump
    root_uri: str = field(repr=False)
    ts: int
    form: DumpForm = field(default_factory=DumpForm)
    zone: str = "UTC"
    without: frozenset[SourceName] = frozenset()


@dataclass(frozen=True, slots=True)
class DumpTask:
    """Data files for one worker, table by table, with the version and the target of each table by its folded name.

    `ts` is the dump's TSO. `zone` is the time zone of TIMESTAMPs where a file names none.
    """

    run_id: str
    number: int
    root_uri: str = field(repr=False)
    form: DumpForm
    zone: str
    ts: int
    files: tuple[TaskFile, ...]
    versions: dict[SourceName, Version]
    targets: dict[SourceName, Target]
    io_properties: dict[str, str] = field(default_factory=dict)
    zero_dates_allowed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpPending(Pending):
    """The tables of a dump by source table; `turn` are those that this round loads, `left` those after it."""

    tables: Mapping[str, DumpedTable]
    turn: frozenset[str]
    left: frozenset[str] = frozenset()

    @property
    def is_empty(self) -> bool:
        """Whether every table is loaded and recorded."""
        return not self.turn and not self.left and self.record is not None and self.record.tso >= self.high

    @property
    def checkpoint(self) -> int:
        """The dump's TSO."""
        return self.high
