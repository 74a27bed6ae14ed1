"""Updates one source table's history: every version of every row, from the changes of its changelog.

A run adds the changes above the history's watermark: the current versions of their keys end, and their versions are
appended. After late rows all versions of their keys are rewritten, after a late statement those of all keys. Either is
published in one commit on top of the snapshot that the run was planned from, as for mirrors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from ticdc_assets.changes.layout import IS_CURRENT, VALIDITY_COLUMNS, LakeColumn
from ticdc_assets.errors import ConfigError
from ticdc_assets.failpoints import Failpoint, hit
from ticdc_assets.names import quote
from ticdc_assets.schema.evolution.schema_state import ConvertColumn, FillColumn, TruncateRows
from ticdc_assets.schema.history.source_table import Absence, SourceTable, Version
from ticdc_assets.tables.catalog import Identifier, ensure_namespace, load_or_none
from ticdc_assets.tables.conversion.convert import converted_value
from ticdc_assets.tables.history import sql
from ticdc_assets.tables.iceberg.jvm import JvmCatalog
from ticdc_assets.tables.iceberg.properties import COLUMNS, EFFECTS, REPLAYED, SOURCE_TABLE
from ticdc_assets.tables.iceberg.schema_step import SchemaStep, SpecField, change_column
from ticdc_assets.tables.iceberg.types import arrow_of
from ticdc_assets.tables.mirror.branch import MirrorBranch, require_progress
from ticdc_assets.tables.mirror.effects import fill_literal
from ticdc_assets.tables.mirror.size import has_files
from ticdc_assets.tables.mirror.versions import no_conversion
from ticdc_assets.tables.mirror.writer import MirrorOptions
from ticdc_assets.tables.progress import (
    Progress,
    columns_property,
    field_ids_by_uid,
    from_summary,
    newest_summary,
    source_table_of,
    stale,
)

ALL_KEYS: Final = 0
"""The TSO of `HistoryPlan.again` from which every key has changes."""


@dataclass(frozen=True, slots=True)
class HistoryState:
    """A history is complete up to the watermark of its `progress`.

    `effects` is a digest of the statements that its rows have gone through. `followed` is the run of the last mark of
    late rows (`tables.replayed`) that it has; empty for none. A snapshot stores all three, so a history that is rolled
    back to an earlier snapshot continues from there.
    """

    progress: Progress = field(default_factory=Progress)
    effects: str = ""
    followed: str = ""

    @property
    def noted(self) -> dict[str, str]:
        """The state as properties of a snapshot, without the progress."""
        return {EFFECTS: self.effects, REPLAYED: self.followed}


NOTHING: Final = HistoryState()
"""The state of a history that is not made yet, or that has no rows yet."""


def state_of(table: Table) -> HistoryState:
    """The newest published state on the table's main branch."""
    summary = newest_summary(table)
    if summary is None:
        return NOTHING
    return HistoryState(from_summary(summary), summary.get(EFFECTS, ""), summary.get(REPLAYED, ""))


@dataclass(frozen=True, slots=True)
class HistoryPlan:
    """What a history lacks: from the state `planned` it goes to `wanted`.

    `again` is the TSO from which keys with changes are made again, all their versions; None where none is. `told` are
    more properties of the new snapshot, for its readers.
    """

    source_table: SourceTable
    changelog: Table
    planned: HistoryState
    wanted: HistoryState
    again: int | None = None
    told: Mapping[str, str] = field(default_factory=dict)

    @property
    def low(self) -> int:
        """The TSO up to which the history has the changes of every key that is not made again."""
        return -1 if self.again == ALL_KEYS else self.planned.progress.watermark if self.planned != NOTHING else -1

    @property
    def high(self) -> int:
        return self.wanted.progress.watermark


class HistoryWriter:
    """Updates one history table. One object for each source table and run."""

    def __init__(
        self,
        catalog: Catalog,
        jvm: JvmCatalog,
        identifier: Identifier,
        changefeed: str,
        run_id: str,
        format_version: int,
        zone: str = "UTC",
    ) -> None:
        self._catalog = catalog
        self._jvm = jvm
        self._branch = MirrorBranch(jvm, identifier, changefeed, run_id)
        self._options = MirrorOptions(format_version)
        self._zone = zone

    def bring_up(self, plan: HistoryPlan, location: str | None) -> Table:
        """Publish what the history lacks, in one commit; the table is created where there is none.

        Raises:
            StaleRunError: another run has published since.
            ConfigError: the name belongs to another table.
        """
        table = self._with_columns(self._opened(plan, location), plan.changelog)
        statements = list(self._statements(table, plan))
        progress = plan.wanted.progress
        self._branch.publish(table, plan.planned.progress, progress, statements, {**plan.wanted.noted, **plan.told})
        return require_progress(table, progress)

    # -- the table ------------------------------------------------------------------------------------------------

    def _opened(self, plan: HistoryPlan, location: str | None) -> Table:
        found, source_table = load_or_none(self._catalog, self._branch.identifier), plan.source_table
        if found is not None and source_table_of(found) != source_table.id:
            advice = "Rename that table, or give the changefeed's tables other names with `target`."
            expected = "no table, or the history of this source table"
            raise ConfigError(".".join(self._branch.identifier), expected, "another", advice)
        table = found if found is not None else self._created(plan, location)
        if state_of(table) != plan.planned:
            raise stale(table, plan.planned.progress, state_of(table).progress)
        return table

    def _created(self, plan: HistoryPlan, location: str | None) -> Table:
        identifier = self._branch.identifier
        validity = [LakeColumn(0, name, arrow) for name, arrow in VALIDITY_COLUMNS]
        columns = [*validity, *_columns_of(plan.changelog)]
        ids = {column.uid: [number] for number, column in enumerate(columns, start=1) if column.uid}
        properties = {
            **self._options.properties,
            SOURCE_TABLE: plan.source_table.id,
            COLUMNS: columns_property(ids),
        }
        ensure_namespace(self._catalog, identifier[:-1])
        spec = (SpecField(IS_CURRENT, "identity", None, IS_CURRENT),)
        self._jvm.create(identifier, columns, (), location, properties, spec)
        hit(Failpoint.HISTORY_MADE)
        return self._catalog.load_table(identifier)

    def _with_columns(self, table: Table, changelog: Table) -> Table:
        """The table with the columns of the changelog: columns are renamed, promoted and added, never dropped."""
        fields = {f.field_id: f for f in table.schema().fields}
        known = {uid: ids for uid, ids in field_ids_by_uid(table.properties).items() if ids[0] in fields}
        wanted = _columns_of(changelog)
        free, take, add = SchemaStep(), SchemaStep(), SchemaStep()
        for uid in known.keys() - {column.uid for column in wanted}:
            free.delete(fields[known.pop(uid)[0]].name)  # the changelog was rebuilt with other columns
        for column in wanted:
            if column.uid in known:
                field = fields[known[column.uid][0]]
                change_column(column, field.name, arrow_of(field.field_type), free, take)
            else:
                add.add(column)
        steps = [step for step in (free, take, add) if step]
        if not steps:
            return table
        jvm = self._branch.load()
        first_id = int(table.metadata.last_column_id) + 1
        for column in (column for column in wanted if column.uid not in known):
            known[column.uid] = [first_id]
            first_id += 1 + column.type.num_fields
        jvm.evolve(table, steps, {COLUMNS: columns_property(known)})
        made = jvm.field_ids()
        assert all(made[c.name] == known[c.uid][0] for c in wanted), "Iceberg gave other field ids than planned"
        return table.refresh()

    # -- rows -----------------------------------------------------------------------------------------------------

    def _statements(self, table: Table, plan: HistoryPlan) -> Iterator[str]:
        target, changelog = self._branch.target, self._branch.quoted(plan.changelog.name())
        columns, key = [column.name for column in _columns_of(plan.changelog)], _key_of(plan)
        condition, only = sql.after(plan.low, plan.high), None
        if plan.again is not None and plan.again > ALL_KEYS:
            only = sql.changed_keys(changelog, sql.after(plan.again - 1, plan.high), key)
            condition = sql.after(-1, plan.high)
        if has_files(table):
            if only is not None:
                yield sql.delete_keys(target, only, key)
            elif plan.again == ALL_KEYS:
                yield sql.delete_all(target)
            else:
                yield sql.end_changed(target, sql.changed_keys(changelog, condition, key), key)
        yield sql.insert_versions(target, changelog, condition, columns, key, only)
        yield from self._effects(plan, only, key)

    def _effects(self, plan: HistoryPlan, only: str | None, key: Sequence[str]) -> Iterator[str]:
        """What statements did to the rows that were valid at their TSO. Each can be repeated."""
        names = {column.uid: column.name for column in _columns_of(plan.changelog)}
        absences = {absence.dropped_ts: absence for absence in plan.source_table.absences}
        versions = {version.from_ts: version for version in plan.source_table.versions}
        for ts in sorted(ts for ts in absences | versions if (only is not None or plan.low < ts) and ts <= plan.high):
            # The rows of all other keys have gone through the statements up to `low`.
            again = only if ts <= plan.low else None
            if ts in versions:
                yield from self._version_effects(versions[ts], names, again, key)
            if ts in absences:
                yield from self._absence(plan, absences[ts])

    def _version_effects(
        self, version: Version, names: dict[int, str], only: str | None, key: Sequence[str]
    ) -> Iterator[str]:
        target, ts = self._branch.target, version.from_ts
        ends = any(isinstance(effect, TruncateRows) for effect in version.effects)
        assignments = sql.ends(sql.literal_ts(ts)) if ends else self._assignments(version, names)
        if assignments:
            yield sql.change(target, assignments, ts, only, key)
        if ends:
            yield sql.delete_never_valid(target, ts)

    def _absence(self, plan: HistoryPlan, absence: Absence) -> Iterator[str]:
        """The rows end at the drop. Where the table came back, versions of them begin there."""
        target, ts = self._branch.target, absence.dropped_ts
        if absence.back_ts is not None and absence.back_ts <= plan.high:
            columns = [column.name for column in _columns_of(plan.changelog)]
            yield sql.insert_again(target, ts, absence.back_ts, columns)
        yield sql.change(target, sql.ends(sql.literal_ts(ts)), ts)
        yield sql.delete_never_valid(target, ts)

    def _assignments(self, version: Version, names: dict[int, str]) -> dict[str, str]:
        """What a statement set in the rows that existed, as SQL by column. A value whose conversion is not known stops
        the mirror, which goes first, and so the table."""
        found: dict[str, str | None] = {}
        for effect in version.effects:
            if isinstance(effect, FillColumn) and effect.uid in names:
                found[names[effect.uid]] = fill_literal(effect, version, self._zone)
            elif isinstance(effect, ConvertColumn):
                converted = converted_value(names[effect.old_uid], effect.old_type, effect.new_type)
                if converted is None:
                    raise no_conversion(version, effect)
                found[names[effect.new_uid]] = converted
        return {name: value for name, value in found.items() if value is not None and value != quote(name)}


def _columns_of(changelog: Table) -> list[LakeColumn]:
    """The columns of the source in a changelog, in its order."""
    schema, uids = changelog.schema(), {ids[0]: uid for uid, ids in field_ids_by_uid(changelog.properties).items()}
    return [LakeColumn(uids[f.field_id], f.name, arrow_of(f.field_type)) for f in schema.fields if f.field_id in uids]


def _key_of(plan: HistoryPlan) -> list[str]:
    names = {column.uid: column.name for column in _columns_of(plan.changelog)}
    return [names[column.uid] for column in plan.source_table.version_at(plan.high + 1).table.ordered_key]
