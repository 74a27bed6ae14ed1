"""SQL changes a mirror on a branch from the snapshot that the run was planned on; main then moves there in one step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ticdc_assets.failpoints import Failpoint, hit
from ticdc_assets.names import quote, quote_path
from ticdc_assets.tables.iceberg.commits import was_overtaken
from ticdc_assets.tables.iceberg.properties import SOURCE_TABLE, VERSION
from ticdc_assets.tables.iceberg.tags import RUN_BRANCH
from ticdc_assets.tables.locations import second_name, second_names
from ticdc_assets.tables.mirror.clone import Clone
from ticdc_assets.tables.mirror.partitioning import colliding_names
from ticdc_assets.tables.progress import Progress, progress_of, stale

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.schema.history.source_table import SourceTable
    from ticdc_assets.tables.catalog import Identifier
    from ticdc_assets.tables.iceberg.jvm import JvmCatalog, JvmTable


class MirrorBranch:
    """The branch of one run on one mirror. It exists only during `publish`."""

    def __init__(self, jvm: JvmCatalog, identifier: Identifier, changefeed: str, run_id: str) -> None:
        self._jvm = jvm
        self.identifier = identifier
        self.changefeed = changefeed
        self.run_id = run_id
        self._branch = f"{RUN_BRANCH}_{run_id.replace('-', '')}"

    def load(self) -> JvmTable:
        """Load the mirror through Iceberg's Java API."""
        return self._jvm.load(self.identifier)

    def of(self, identifier: Identifier) -> MirrorBranch:
        """The branch of the same run on another table."""
        return MirrorBranch(self._jvm, identifier, self.changefeed, self.run_id)

    def with_free_names(self, table: Table, source_table: SourceTable) -> Table:
        """The mirror with no partition field that has the name of a column of the source."""
        names = colliding_names(table, source_table)
        if not names:
            return table
        self.load().rename_partition_fields(names)
        return table.refresh()

    def clone(self, table: Table, namespace: Identifier) -> Clone:
        """A clone of the mirror, registered in a namespace. Those of other runs are removed from the catalog."""
        source_table_id = table.properties[SOURCE_TABLE]
        for other in second_names(table.catalog, namespace, "altered", source_table_id):
            Clone(self._jvm, table, other, self.changefeed).forget()
        name = second_name(namespace, "altered", source_table_id, self.run_id)
        clone = Clone(self._jvm, table, name, self.changefeed)
        clone.register()
        return clone

    @property
    def target(self) -> str:
        """The quoted name of the branch, which statements write to."""
        return f"{self.quoted(self.identifier)}.{quote(f'branch_{self._branch}')}"

    def quoted(self, identifier: Identifier) -> str:
        """The quoted name of a table of the catalog, for reads."""
        return quote_path((self._jvm.name, *identifier))

    def has_row(self, query: str) -> bool:
        """Whether a query returns a row."""
        return bool(self._jvm.thread_session().sql(query).take(1))

    def publish(
        self,
        table: Table,
        parent: Progress,
        progress: Progress,
        statements: Sequence[str],
        noted: Mapping[str, str] | None = None,
    ) -> None:
        """Run SQL statements on a branch that begins at the snapshot of `table`, then move main there by fast-forward.

        Args:
            table: the mirror as the run has loaded it.
            parent: the progress of that snapshot.
            progress: the progress that the new snapshot carries.
            statements: SQL that writes to `target`, run in order.
            noted: further properties of the new snapshot; default: the version of the mirror.

        Raises:
            StaleRunError: main has moved. Nothing is published then.
        """
        jvm = self.load()
        begin = snapshot_id(table)
        jvm.start_branch(self._branch, begin)
        noted = {VERSION: table.properties[VERSION]} if noted is None else noted
        summary = {**progress.summary(self.changefeed, parent), **noted}
        try:
            for statement in statements:
                self._execute(statement, summary)
            if not jvm.has_committed(self._branch, begin, summary):
                # There was no change, or Spark removed whole files: such a commit has no progress.
                jvm.append_nothing(summary, self._branch)
            hit(Failpoint.BRANCH_WRITTEN)
            jvm.publish_branch(self._branch)
            hit(Failpoint.AFTER_MIRROR_COMMIT)
        except Exception as error:
            if was_overtaken(error):
                raise jvm.overtaken() from error
            raise
        finally:
            jvm.drop_branch(self._branch)

    def _execute(self, statement: str, summary: dict[str, str]) -> None:
        # Only session conf sets the summary of a MERGE, and each thread has its own session.
        spark = self._jvm.thread_session()
        keys = {f"spark.sql.iceberg.snapshot-property.{key}": value for key, value in summary.items()}
        for key, value in keys.items():
            spark.conf.set(key, value)
        try:
            spark.sql(statement)
        finally:
            for key in keys:
                spark.conf.unset(key)


def snapshot_id(table: Table) -> int:
    """The snapshot that a mirror was loaded at."""
    snapshot = table.current_snapshot()
    assert snapshot is not None, "a mirror is made with a snapshot"
    return snapshot.snapshot_id


def require_progress(table: Table, progress: Progress) -> Table:
    """The mirror's current state. Raises StaleRunError where it is not at `progress`: another run has published since,
    and its changes must not be merged again or undone."""
    table = table.refresh()
    found = progress_of(table)
    if found != progress:
        raise stale(table, progress, found)
    return table
