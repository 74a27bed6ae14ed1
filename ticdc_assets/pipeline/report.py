"""What a run did to the changelogs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ticdc_assets.tables.control import WatermarkRecord


@dataclass(frozen=True, slots=True)
class ChangelogReport:
    """What the changelogs gained: by source table, the number of rows by operation.

    `late_rows` counts, by source table, the rows at or below the watermark that the table had before the run.
    `records_read` counts files or messages.
    """

    run_id: str
    high: int
    rows_by_op: dict[str, dict[str, int]] = field(default_factory=dict)
    repeats: int = 0
    zero_dates: int = 0
    ambiguous_times: int = 0
    quarantined: int = 0
    records_read: int = 0
    late_rows: dict[str, int] = field(default_factory=dict)
    record: WatermarkRecord | None = None
