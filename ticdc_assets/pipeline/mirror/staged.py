"""The mirrors of a run that publishes all of them together.

The run changes each mirror under a second name in the control namespace, a clone that readers do not see. At its end
one commit of several tables lets all mirrors take over their clones, and adds the record. A run that ends earlier has
published nothing; the next one that publishes a mirror removes the second names that earlier runs left of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError

from ticdc_assets.errors import ConfigError, StaleRunError
from ticdc_assets.pipeline.mirror.rounds import MIRRORS_AT_ONCE, Failure, guarded
from ticdc_assets.pipeline.mirror.writers import writer_of
from ticdc_assets.tables.catalog import load_or_none
from ticdc_assets.tables.iceberg.joint_commit import PreparedChange, joint_commits, tidied
from ticdc_assets.tables.locations import second_name, second_names
from ticdc_assets.tables.mirror.clone import OF_A_CLONE, Clone

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.notes import Note
    from ticdc_assets.pipeline.lake import Lake
    from ticdc_assets.pipeline.mirror.pending import MirrorWork
    from ticdc_assets.pipeline.plan import Plan
    from ticdc_assets.tables.catalog import Identifier
    from ticdc_assets.tables.control.records import TableRecord, WatermarkRecord
    from ticdc_assets.tables.iceberg.jvm import JvmCatalog


class StagedMirrors:
    """The clones of one run. `plan` is that of the run with the clones in place of their mirrors.

    Raises ConfigError where the catalog cannot commit several tables at once.
    """

    def __init__(self, lake: Lake, run_id: str, jvm: Callable[[], JvmCatalog], plan: Plan) -> None:
        self._lake = lake
        self._run_id = run_id
        self._jvm = jvm
        self._commits = joint_commits(lake.catalog)
        self._mirrors = plan.locations
        self._locations = dict(plan.locations)
        self.plan = replace(plan, locations=self._locations)
        self._clones: dict[str, Clone] = {}
        self._changes: dict[str, PreparedChange] = {}

    @property
    def source_tables(self) -> frozenset[str]:
        """The source tables whose mirrors have a clone, by id."""
        return frozenset(self._clones)

    def stage(self, works: Sequence[MirrorWork], errors: dict[str, Note]) -> list[MirrorWork]:
        """The same works on clones. A mirror that cannot be cloned is left out, and `errors` gets the reason."""
        staged: list[MirrorWork] = []
        with ThreadPoolExecutor(MIRRORS_AT_ONCE) as pool:
            answers = pool.map(lambda work: guarded(partial(self._staged, work)), works)
            for work, answer in zip(works, list(answers), strict=True):
                if isinstance(answer, Failure):
                    errors[work.source_table.id] = answer.note
                else:
                    staged.append(answer)
        return staged

    def _staged(self, work: MirrorWork) -> MirrorWork:
        source_table, place = work.source_table, work.place
        if source_table.id not in self._clones:
            jvm = self._jvm()
            writer = writer_of(self._lake, self._run_id, jvm, source_table, place.mirror)
            mirror = writer.made(source_table, place.mirror_location)
            name = second_name(self._lake.control.namespace, "staged", source_table.id, self._run_id)
            clone = Clone(jvm, mirror, name, self._lake.changefeed.name)
            clone.register()
            self._clones[source_table.id] = clone
            _mark(jvm, name, mirror)
            self._locations[source_table.id] = replace(place, mirror=name)
        return replace(work, place=self._locations[source_table.id])

    # -- the end ------------------------------------------------------------------------------------------------------

    def prepare(self, errors: dict[str, Note]) -> None:
        """Prepare the commit. A mirror whose change cannot be prepared is left out, and `errors` gets the reason.

        Raises StaleRunError where another run has published since.
        """
        made = {i: clone for i, clone in self._clones.items() if self._locations[i] != self._mirrors[i]}
        with ThreadPoolExecutor(MIRRORS_AT_ONCE) as pool:
            answers = pool.map(lambda clone: guarded(lambda: self._commits.prepare(clone.change())), made.values())
            for source_table_id, answer in zip(made, list(answers), strict=True):
                if isinstance(answer, Failure):
                    errors[source_table_id] = answer.note
                    self._locations[source_table_id] = self._mirrors[source_table_id]
                else:
                    self._changes[source_table_id] = answer

    def with_names(self, tables: Iterable[TableRecord]) -> list[TableRecord]:
        """The tables of a record with the names of mirrors in place of those of clones."""
        return [
            replace(table, mirror=list(self._mirrors[table.source_table].mirror))
            if table.source_table in self._changes and table.mirror is not None
            else table
            for table in tables
        ]

    def publish(self, record: WatermarkRecord | None) -> None:
        """Let all mirrors take over their clones and add the record, if there is one, in one commit.

        Raises:
            StaleRunError: another run has published first. Nothing is published then.
            ConfigError: the catalog cannot commit several tables at once.
        """
        control, changes = self._lake.control, list(self._changes.values())
        if not changes:
            if record is not None:
                control.record(record)
            return
        if record is not None:
            changes.append(self._commits.prepare_transaction(control.staged(record)))
        try:
            self._commits.publish(changes)
        except ConfigError:
            raise
        except Exception as error:
            if not self._has_landed():
                if isinstance(error, CommitFailedException):
                    raise _overtaken(self._lake) from error
                raise
        tidied(changes)
        self._forget_earlier()
        if record is not None:
            control.compact_records()

    def _has_landed(self) -> bool:
        """Whether a mirror has the snapshot of its clone: then all of them have."""
        for source_table_id in self._changes:
            clone = load_or_none(self._lake.catalog, self._locations[source_table_id].mirror)
            mirror = load_or_none(self._lake.catalog, self._mirrors[source_table_id].mirror)
            made = clone.metadata.current_snapshot_id if clone is not None else None
            if made != self._clones[source_table_id].table.metadata.current_snapshot_id:
                return mirror is not None and made is not None and mirror.snapshot_by_id(made) is not None
        return False

    def _forget_earlier(self) -> None:
        """Remove the second names that killed runs left of these mirrors. Another run that uses one is overtaken."""
        catalog, own = self._lake.catalog, {clone.identifier for clone in self._clones.values()}
        for found in second_names(catalog, self._lake.control.namespace, "staged", *self._changes):
            if found not in own:
                with suppress(NoSuchTableError):
                    catalog.drop_table(found)

    def close(self) -> None:
        """Remove the second names of this run with their metadata files. The mirrors need only the other files. A later
        run removes a name that cannot be removed now, and maintenance the files."""
        for clone in self._clones.values():
            with suppress(Exception):
                self._forget(clone)

    def _forget(self, clone: Clone) -> None:
        made = self._lake.catalog.load_table(clone.identifier)
        self._lake.catalog.drop_table(clone.identifier)
        for uri in _metadata_files(made) - _metadata_files(clone.table):
            made.io.delete(uri)


def _mark(jvm: JvmCatalog, name: Identifier, mirror: Table) -> None:
    """Set the properties of a clone. After a lost answer, the clone shows whether it has them."""
    try:
        jvm.load(name).evolve(mirror, [], OF_A_CLONE)
    except (Py4JJavaError, StaleRunError):
        properties = jvm.load(name).java.properties()
        if any(properties.get(key) != value for key, value in OF_A_CLONE.items()):
            raise


def _metadata_files(table: Table) -> set[str]:
    return {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}


def _overtaken(lake: Lake) -> StaleRunError:
    return StaleRunError(
        f"changefeed {lake.changefeed.name}",
        "the mirrors and the record that this run was planned from",
        "newer ones",
        "Another run published first, and nothing was written twice. Run again to continue from there.",
    )
