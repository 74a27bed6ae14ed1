"""The task of a worker that reads data files of a dump; all of it pickles."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ticdc_assets.pipeline.tasks import Target, TaskFile
    from ticdc_assets.protocols.dump.form import DumpForm
    from ticdc_assets.schema.history.source_table import SourceName, Version


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
