"""Maintenance of one changefeed's tables: records thinned, snapshots expired, files compacted, leftovers removed.

The order keeps every record readable: a record goes before the snapshots it names, a snapshot before its files. It may
end anywhere and be run again, and runs of the changefeed may go on beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from ticdc_assets.amounts import counted
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.tables.catalog import Identifier, load_or_none
from ticdc_assets.tables.compaction import compact, is_scattered
from ticdc_assets.tables.expiry import Expiry, expire, expiry_of
from ticdc_assets.tables.leftovers import Leftover, neighbours, sweep
from ticdc_assets.tables.progress import lineage_of
from ticdc_assets.tables.retention import thin

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.tables.iceberg_jvm import JvmCatalog

OLDER_THAN_HOURS: Final = 24
"""Nothing younger is touched: neither files, which a run may be about to publish, nor snapshots, which somebody may be
reading. A run that takes longer than this may lose its files and has to be run again."""

OLDER_THAN_HOURS_MIN: Final = 1
"""No age that is asked for may be below: a run has written its files for a while before it commits them."""

DAYS_KEPT: Final = 30
"""For how long the last record of each day stays."""

AGE_MAX: Final = 36_500
"""Hours or days; more is a slip of the hand."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What may go, as a user said it; `now` is the moment all ages are counted from."""

    now: datetime
    older_than_hours: float = OLDER_THAN_HOURS
    days_kept: int = DAYS_KEPT
    compact: bool = False
    dry_run: bool = False

    @property
    def older_than(self) -> datetime:
        """What is older than this may go."""
        return self.now - timedelta(hours=self.older_than_hours)


@dataclass(slots=True)
class MaintenanceReport:
    """What went, or would go in a dry run; `left_alone` says by location why nothing was judged there."""

    changefeed: str
    dry_run: bool
    records: int = 0
    expired: dict[str, Expiry] = field(default_factory=dict)
    compacted: dict[str, int] = field(default_factory=dict)
    leftovers: list[Leftover] = field(default_factory=list)
    left_alone: dict[str, str] = field(default_factory=dict)

    @property
    def snapshots(self) -> int:
        """How many snapshots were expired."""
        return sum(len(found.snapshot_ids) for found in self.expired.values())

    @property
    def branches(self) -> int:
        """How many branches of killed runs were removed."""
        return sum(len(found.branches) for found in self.expired.values())

    @property
    def size_bytes(self) -> int:
        """What the leftovers take."""
        return sum(leftover.size_bytes for leftover in self.leftovers)


def maintain(
    lake: Lake, policy: Policy, jvm: Callable[[], JvmCatalog], say: Callable[[str], None] = lambda _: None
) -> MaintenanceReport:
    """Maintain all tables of the changefeed. `jvm` is called only where a mirror has something to give up or to
    compact; a dry run never calls it."""
    report = MaintenanceReport(lake.changefeed.name, policy.dry_run)
    tables = tables_of(lake)
    if policy.compact and not policy.dry_run:
        say("compacting")
        _compact(report, tables, jvm)
    say(f"expiring snapshots of {counted(len(tables), 'table')}")
    thinned = thin(lake.control, policy.older_than, policy.days_kept, policy.now, write=not policy.dry_run)
    report.records = thinned.removed
    _expire(lake, report, tables, thinned.kept_ids, policy, jvm)
    say("looking for leftovers")
    _sweep(lake, report, tables, policy)
    return report


def tables_of(lake: Lake) -> list[Table]:
    """The changefeed's changelogs, mirrors and control tables, dropped source tables included."""
    wanted: dict[Identifier, str | None] = {
        (*lake.control.namespace, name): None for name in ("watermarks", "tables", "schemas", "registry", "quarantine")
    }
    history, record = lake.history(), lake.control.newest()
    for lineage_id, place in lake.places(history).items():
        wanted.update({place.mirror: lineage_id, place.changelog: lineage_id})
    for lineage_id, recorded in lake.recorded(record).items():
        for held in (recorded.mirror, recorded.changelog):
            if held:
                wanted[tuple(held)] = lineage_id
    loaded = ((load_or_none(lake.catalog, identifier), lineage_id) for identifier, lineage_id in wanted.items())
    return [table for table, lineage_id in loaded if table is not None and lineage_of(table) == lineage_id]


def _compact(report: MaintenanceReport, tables: list[Table], jvm: Callable[[], JvmCatalog]) -> None:
    for table in tables:
        if lineage_of(table) is not None and is_scattered(table):
            count = compact(jvm(), table)
            if count:
                report.compacted[".".join(table.name())] = count


def _expire(
    lake: Lake,
    report: MaintenanceReport,
    tables: list[Table],
    kept_ids: Collection[int],
    policy: Policy,
    jvm: Callable[[], JvmCatalog],
) -> None:
    for table in tables:
        if policy.dry_run:
            found = expiry_of(table.metadata, kept_ids, policy.older_than)
        else:
            found = expire(lake.catalog, jvm, table, kept_ids, policy.older_than)
        if found:
            report.expired[".".join(table.name())] = found


def _sweep(lake: Lake, report: MaintenanceReport, tables: list[Table], policy: Policy) -> None:
    others = neighbours(lake.catalog)
    loaded = (load_or_none(lake.catalog, table.name()) for table in tables)
    ours = [table for table in loaded if table is not None]
    without = {}
    if policy.dry_run:
        gone = {name: found.snapshot_ids for name, found in report.expired.items()}
        without = {str(t.metadata.table_uuid): gone.get(".".join(t.name()), ()) for t in ours}
    done: set[str] = set()
    for table in ours:
        swept = sweep(lake.catalog, table, others, policy.older_than, without, remove=not policy.dry_run)
        fresh = [leftover for leftover in swept.leftovers if leftover.uri not in done]
        done.update(leftover.uri for leftover in fresh)
        report.leftovers.extend(fresh)
        if swept.left_alone:
            report.left_alone[swept.location] = swept.left_alone
