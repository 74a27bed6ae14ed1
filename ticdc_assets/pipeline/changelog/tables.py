"""The changelogs that a run writes to. They are created or widened before the workers decode."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from ticdc_assets.advice import Advice
from ticdc_assets.changes.layout import changelog_columns
from ticdc_assets.errors import OtherTableError, SetBackError, TicdcAssetsError
from ticdc_assets.faults import of_one_table
from ticdc_assets.notes import Note, NoteCode
from ticdc_assets.pipeline.changed_settings import known_settings, written_with_others_in
from ticdc_assets.pipeline.changelog.publish import caught_up
from ticdc_assets.pipeline.commit_range import CommitRange, Hold, TableState, with_holds
from ticdc_assets.pipeline.late_statements import (
    known_histories,
    set_replaced_aside,
    set_unrecorded_aside,
    written_otherwise_in,
)
from ticdc_assets.pipeline.late_tables import is_passed
from ticdc_assets.pipeline.renamed_tables import rename_changelogs
from ticdc_assets.pipeline.set_back import recorded_changelog
from ticdc_assets.pipeline.tasks import Target
from ticdc_assets.tables import changelog
from ticdc_assets.tables.iceberg.commits import COMMITS_AT_ONCE

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.pipeline.plan import Plan
    from ticdc_assets.tables.catalog import Identifier


def changelogs_to_write(lake: Lake, plan: Plan) -> tuple[Plan, dict[str, Table]]:
    """The changelogs under their names in the history, and the plan with each commit range from its changelog's own
    watermark.

    A table is held if another table has its changelog's name. No changelog is created for a table whose earlier records
    were passed unread.

    Raises:
        ConfigError: a recorded table is gone, or another table has its name.
    """
    set_replaced_aside(lake, plan)
    taken = rename_changelogs(lake, plan)
    if set_unrecorded_aside(lake, plan, taken):
        taken = rename_changelogs(lake, plan)
    ranges = plan.commit_ranges
    free = {i: commit_range for i, commit_range in ranges.items() if i not in taken and not is_passed(commit_range)}
    tables, faults = _ensure_changelogs(lake, plan.with_ranges(free))
    held = {i: _without_a_name(ranges[i], taken[i]) for i in ranges.keys() & taken.keys()}
    held |= {i: _held(ranges[i], fault) for i, fault in faults.items()}
    otherwise = written_otherwise_in(lake, ranges, tables) | written_with_others_in(lake, ranges, tables)
    held |= with_holds({i: ranges[i] for i in otherwise}, otherwise)
    return plan.with_ranges(caught_up({**ranges, **held}, tables)), tables


def _without_a_name(commit_range: CommitRange, name: Identifier) -> CommitRange:
    expected = f"expected no table, or the changelog of {'.'.join(commit_range.source_table.name)}"
    detail = f"{'.'.join(name)}: {expected}, found another."
    hold = Hold(TableState.STOPPED, Note(NoteCode.NAME_TAKEN, detail, (Advice.RENAME_OTHER_TABLE,)))
    return replace(commit_range, high=commit_range.low, hold=hold)


def _held(commit_range: CommitRange, fault: TicdcAssetsError) -> CommitRange:
    where = f"{'.'.join(commit_range.source_table.name)}, its changelog"
    is_set_back = isinstance(fault, SetBackError)
    note = Note.of(NoteCode.SET_BACK, fault) if is_set_back else Note.of(NoteCode.CHANGELOG, fault, where)
    return replace(commit_range, high=commit_range.low, hold=Hold(TableState.STOPPED, note))


def _ensure_changelogs(lake: Lake, plan: Plan) -> tuple[dict[str, Table], dict[str, TicdcAssetsError]]:
    """Create or widen the changelogs of all source tables.

    Returns:
        By source table, the changelog with all columns of its history, and the errors of tables without one. No
        changelog is created before the stream has a TSO.

    Raises:
        ConfigError: a recorded table is gone, or another table has its name.
    """
    record, ranges = plan.record, plan.commit_ranges
    histories = known_histories(lake, ranges)

    def ensured(source_table_id: str) -> Table:
        place, known = plan.locations[source_table_id], plan.recorded.get(source_table_id)
        wanted = changelog.ChangelogSpec(
            place.changelog,
            lake.changefeed.name,
            source_table_id,
            changelog_columns(ranges[source_table_id].source_table),
            place.changelog_location,
            known_settings(lake, ranges[source_table_id].source_table),
        )
        held_at = recorded_changelog(lake, known, record.recorded_at) if record is not None else None
        return changelog.ensure(lake.catalog, wanted, held_at, histories.get(source_table_id))

    def ensure(source_table_id: str) -> tuple[str, Table | TicdcAssetsError]:
        try:
            try:
                return source_table_id, ensured(source_table_id)
            except OtherTableError:
                if not set_unrecorded_aside(lake, plan, [source_table_id]):
                    raise
                return source_table_id, ensured(source_table_id)
        except SetBackError as error:
            return source_table_id, error
        except TicdcAssetsError:
            raise
        except Exception as error:  # noqa: BLE001  raised again where it is not of one table
            return source_table_id, of_one_table(error)

    with ThreadPoolExecutor(COMMITS_AT_ONCE) as pool:
        found = dict(pool.map(ensure, [i for i, n in ranges.items() if n.high > 0 or n.low > 0]))
    faults = {i: answer for i, answer in found.items() if isinstance(answer, TicdcAssetsError)}
    return {i: answer for i, answer in found.items() if not isinstance(answer, TicdcAssetsError)}, faults


def target_of(commit_range: CommitRange, table: Table, low: int) -> Target:
    """What a worker needs to write the changes of a source table above `low`."""
    schemas = {
        version.from_ts: changelog.write_schema(table, [c.uid for c in version.table.stored_columns])
        for version in commit_range.source_table.versions
    }
    data_uri = f"{table.location().rstrip('/')}/data"
    return Target(commit_range.source_table.id, low, commit_range.high, data_uri, schemas, table.metadata_location)
