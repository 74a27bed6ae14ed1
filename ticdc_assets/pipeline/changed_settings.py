"""Tables whose settings in the config differ from those that their rows were read with: they are held.

What happens to every key of a changefeed that changes is declared in `config.changefeed_keys`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ticdc_assets.advice import Advice
from ticdc_assets.names import control_namespace
from ticdc_assets.notes import Note, NoteCode
from ticdc_assets.pipeline.commit_range import CommitRange, Hold, TableState
from ticdc_assets.pipeline.renamed_tables import changelog_of
from ticdc_assets.protocols.values.text import time_zone
from ticdc_assets.schema.history.written_settings import WrittenSettings, fault_of_keys
from ticdc_assets.tables.written_with import KnownSettings

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.pipeline.plan import Plan
    from ticdc_assets.schema.history.source_table import SourceTable


def known_settings(lake: Lake, source_table: SourceTable) -> KnownSettings:
    """The settings of a table in the present config."""
    zone = str(time_zone(lake.changefeed.time_zone))
    control = ".".join(control_namespace(lake.changefeed.target, lake.changefeed.name))
    return KnownSettings(WrittenSettings.of(source_table, zone, lake.by_arrival, control))


def settings_holds(lake: Lake, plan: Plan) -> dict[str, Hold]:
    """The tables that the present config cannot continue. Changelogs are only read where the record shows a change."""
    held: dict[str, Hold] = {}
    for source_table_id, commit_range in plan.commit_ranges.items():
        source_table, table = commit_range.source_table, plan.recorded.get(source_table_id)
        fault = _fault_of_keys(source_table)
        if fault:
            held[source_table_id] = _of_keys(source_table, fault)
        elif table is not None and table.settings != known_settings(lake, source_table).now.to_json():
            changelog = changelog_of(lake, plan, source_table)
            hold = settings_hold(lake, source_table, changelog) if changelog is not None else None
            held |= {source_table_id: hold} if hold is not None else {}
    return held


def written_with_others_in(
    lake: Lake, commit_ranges: Mapping[str, CommitRange], changelogs: Mapping[str, Table]
) -> dict[str, Hold]:
    """Holds for the tables whose changelogs were written with other settings, also by a run without a record."""
    found = {i: settings_hold(lake, commit_ranges[i].source_table, changelogs[i]) for i in changelogs}
    return {i: hold for i, hold in found.items() if hold is not None}


def settings_hold(lake: Lake, source_table: SourceTable, changelog: Table) -> Hold | None:
    """The hold of a table whose changelog cannot be continued with the present config; None where it can."""
    fault = known_settings(lake, source_table).fault(changelog)
    if not fault:
        return None
    advice = Advice.CHANGE_BACK_OR_READ_ELSEWHERE if lake.by_arrival else Advice.CHANGE_BACK_OR_REBUILD
    note = Note(NoteCode.SETTINGS, f"{'.'.join(source_table.name)}: {fault}.", (advice,))
    return Hold(TableState.STOPPED, note)


def _fault_of_keys(source_table: SourceTable) -> str:
    """The fault of `keys`, of the newest columns; a column may have been added later, or dropped."""
    return fault_of_keys(source_table.newest) and fault_of_keys(source_table.versions[0].table)


def _of_keys(source_table: SourceTable, fault: str) -> Hold:
    note = Note(NoteCode.KEYS, f"{'.'.join(source_table.name)}: {fault}.", (Advice.CORRECT_KEYS,))
    return Hold(TableState.STOPPED, note)
