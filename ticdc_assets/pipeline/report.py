"""What a run did to the changelogs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ticdc_assets.tables.control.records import WatermarkRecord


@dataclass(frozen=True, slots=True)
class Findings:
    """What a run removed from the rows of one table, or could not take as it was: numbers of rows and values."""

    repeats: int = 0
    zero_dates: int = 0
    ambiguous_times: int = 0

    def __add__(self, other: Findings) -> Findings:
        return Findings(
            self.repeats + other.repeats,
            self.zero_dates + other.zero_dates,
            self.ambiguous_times + other.ambiguous_times,
        )


@dataclass(frozen=True, slots=True)
class ChangelogReport:
    """What the changelogs gained: by source table, the number of rows by operation, and the findings.

    `late_rows` counts, by source table, the rows at or below the watermark that the table had before the run.
    `records_read` counts files or messages.
    """

    run_id: str
    high: int
    rows_by_op: dict[str, dict[str, int]] = field(default_factory=dict)
    findings: dict[str, Findings] = field(default_factory=dict)
    quarantined: int = 0
    records_read: int = 0
    late_rows: dict[str, int] = field(default_factory=dict)
    record: WatermarkRecord | None = None

    @property
    def repeats(self) -> int:
        """The number of removed repeats of all tables."""
        return sum(found.repeats for found in self.findings.values())

    @property
    def zero_dates(self) -> int:
        """The number of dates of all tables that are not in the calendar."""
        return sum(found.zero_dates for found in self.findings.values())

    @property
    def ambiguous_times(self) -> int:
        """The number of TIMESTAMPs of all tables that may be either of two times."""
        return sum(found.ambiguous_times for found in self.findings.values())
