"""The rows that a task finds under one source name, and why they wait."""

from __future__ import annotations

from dataclasses import dataclass, field

from ticdc_assets.pipeline.stream.decode.row_schemas import Shapes
from ticdc_assets.pipeline.tasks import FileReport, FileState, QuarantineEntry
from ticdc_assets.protocols.events import RowEvent
from ticdc_assets.schema.history.source_table import SourceName


@dataclass(slots=True)
class NameState:
    """The state of one source name in this task."""

    rows: int = 0
    above: int = 0
    repeats: int = 0
    zero_dates: int = 0
    ambiguous_times: int = 0
    problem: str = ""
    state: FileState = FileState.READ
    bad: list[QuarantineEntry] = field(default_factory=list)
    shapes: Shapes = field(default_factory=Shapes)

    def waits(self, problem: str) -> None:
        """Let the table wait, unless it is known to be stopped."""
        if self.state is not FileState.STOPPED:
            self.state, self.problem = FileState.WAITING, problem

    def report(self, name: SourceName) -> FileReport:
        """The report of this name for the driver."""
        return FileReport(
            ".".join(name),
            name,
            self.state,
            self.rows,
            self.above,
            self.repeats,
            self.zero_dates,
            tuple(self.bad),
            self.problem,
            shapes=self.shapes.events(),
            ambiguous_times=self.ambiguous_times,
        )


def no_table(event: RowEvent) -> str:
    """Why a row waits whose table no longer has that name."""
    return (
        f"{event.schema}.{event.table}: expected a table of that name at the row, found that it was renamed or "
        "dropped before: the row was sent again, after the statement. Load the table again in a changefeed of another "
        "name, whose stream begins after the row."
    )


def no_schema(event: RowEvent) -> str:
    """Why a row waits whose schema is not known yet."""
    version = "" if event.hints.schema_version is None else f" version {event.hints.schema_version}"
    return (
        f"{event.schema}.{event.table}: expected the schema{version} that its rows were written with, found none yet. "
        "It waits: a BOOTSTRAP or DDL message brings the schema; or add the table to `schema_files`."
    )
