"""What is loaded of a dump, and how it is read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ticdc_assets.protocols.dump.form import DumpForm

if TYPE_CHECKING:
    from ticdc_assets.schema.history.source_table import SourceName
    from ticdc_assets.sources.dump.listing import Dump


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
