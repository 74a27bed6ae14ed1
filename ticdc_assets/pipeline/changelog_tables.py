"""The changelogs that a run writes to: made or widened before the decode, and told to the workers as targets."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from ticdc_assets.changes.layout import changelog_columns
from ticdc_assets.errors import TicdcAssetsError
from ticdc_assets.faults import of_one_table
from ticdc_assets.pipeline.interval import Hold, Interval, TableState
from ticdc_assets.pipeline.late_tables import is_passed
from ticdc_assets.pipeline.publish import caught_up
from ticdc_assets.pipeline.task import Target
from ticdc_assets.schema.lineage import History
from ticdc_assets.tables import changelog
from ticdc_assets.tables.commits import COMMITS_AT_ONCE

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.tables.catalog import Identifier
    from ticdc_assets.tables.control import WatermarkRecord


def settled_changelogs(
    lake: Lake, history: History, intervals: Mapping[str, Interval], record: WatermarkRecord | None
) -> tuple[dict[str, Interval], dict[str, Table]]:
    """The changelogs under the names that the history wants, and the intervals from where each of them is.

    A table is held whose changelog's name another table has, and none is made of one that lacks what was passed unread.
    Raises as `ensure_changelogs`.
    """
    taken = lake.settle_changelogs(history, record)
    free = {i: interval for i, interval in intervals.items() if i not in taken and not is_passed(interval)}
    tables, faults = ensure_changelogs(lake, history, free, record)
    held = {i: _without_a_name(intervals[i], taken[i]) for i in intervals.keys() & taken.keys()}
    held |= {i: _held(intervals[i], fault) for i, fault in faults.items()}
    return caught_up({i: held.get(i, interval) for i, interval in intervals.items()}, tables), tables


def _without_a_name(interval: Interval, name: Identifier) -> Interval:
    hold = Hold(
        TableState.STOPPED,
        f"{'.'.join(name)}: expected no table, or the changelog of {'.'.join(interval.lineage.name)}, found another. "
        "Rename that table, or give the changefeed's tables other names with `target`.",
    )
    return replace(interval, high=interval.low, hold=hold)


def _held(interval: Interval, fault: TicdcAssetsError) -> Interval:
    reason = f"{'.'.join(interval.lineage.name)}, its changelog: {fault}"
    return replace(interval, high=interval.low, hold=Hold(TableState.STOPPED, reason))


def ensure_changelogs(
    lake: Lake, history: History, intervals: Mapping[str, Interval], record: WatermarkRecord | None
) -> tuple[dict[str, Table], dict[str, TicdcAssetsError]]:
    """By lineage, the changelog with all columns its history has; none before the stream has a TSO. And what libraries
    say of those of which there is none therefore.

    Raises ConfigError where a table that `record` tells of is gone, or is another.
    """
    places = lake.places(history)
    recorded = lake.recorded(record)

    def ensured(lineage_id: str) -> Table:
        place, known = places[lineage_id], recorded.get(lineage_id)
        return changelog.ensure(
            lake.catalog,
            place.changelog,
            lake.changefeed.name,
            lineage_id,
            changelog_columns(intervals[lineage_id].lineage),
            place.changelog_location,
            known.changelog_snapshot_id if known else None,
        )

    def ensure(lineage_id: str) -> tuple[str, Table | TicdcAssetsError]:
        try:
            return lineage_id, ensured(lineage_id)
        except TicdcAssetsError:
            raise
        except Exception as error:  # noqa: BLE001  raised again where it is not of one table
            return lineage_id, of_one_table(error)

    with ThreadPoolExecutor(COMMITS_AT_ONCE) as pool:
        found = dict(pool.map(ensure, [i for i, n in intervals.items() if n.high > 0 or n.low > 0]))
    faults = {i: answer for i, answer in found.items() if isinstance(answer, TicdcAssetsError)}
    return {i: answer for i, answer in found.items() if not isinstance(answer, TicdcAssetsError)}, faults


def target_of(interval: Interval, table: Table, low: int) -> Target:
    """What a worker needs to write a lineage's changes above `low`."""
    schemas = {
        version.from_ts: changelog.write_schema(table, [c.uid for c in version.table.stored_columns])
        for version in interval.lineage.versions
    }
    data_uri = f"{table.location().rstrip('/')}/data"
    return Target(interval.lineage.id, low, interval.high, data_uri, schemas, table.metadata_location)
