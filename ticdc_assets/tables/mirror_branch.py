"""Where SQL changes a mirror: on a branch that begins where the run was planned, and that main moves to in one step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ticdc_assets.moments import Moment, reached
from ticdc_assets.names import quote, quote_path
from ticdc_assets.tables.progress import VERSION, Progress, progress_of, stale

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.tables.catalog import Identifier
    from ticdc_assets.tables.iceberg_jvm import JvmCatalog, JvmTable

BRANCH: Final = "ticdc_run"


class MirrorBranch:
    """The branch of one run on one mirror. There is none in the table before `publish`, nor after it."""

    def __init__(self, jvm: JvmCatalog, identifier: Identifier, changefeed: str, run_id: str) -> None:
        self._jvm = jvm
        self.identifier = identifier
        self.changefeed = changefeed
        self.run_id = run_id
        self._branch = f"{BRANCH}_{run_id.replace('-', '')}"

    def load(self) -> JvmTable:
        """The mirror as Iceberg's Java side has it."""
        return self._jvm.load(self.identifier)

    @property
    def target(self) -> str:
        """What statements write to."""
        return f"{self.quoted(self.identifier)}.{quote(f'branch_{self._branch}')}"

    def quoted(self, identifier: Identifier) -> str:
        """A table of the catalog, to read from."""
        return quote_path((self._jvm.name, *identifier))

    def has_row(self, query: str) -> bool:
        """Whether a query has an answer."""
        return bool(self._jvm.thread_session().sql(query).take(1))

    def publish(self, table: Table, parent: Progress, progress: Progress, statements: Sequence[str]) -> None:
        """Run the statements on a branch of the snapshot `table` was loaded at, then move main there."""
        jvm = self.load()
        begin = snapshot_id(table)
        jvm.start_branch(self._branch, begin)
        summary = {**progress.summary(self.changefeed, parent), VERSION: table.properties[VERSION]}
        try:
            for statement in statements:
                self._execute(statement, summary)
            if not jvm.tells(self._branch, begin, summary):
                # Nothing was to be done, or Spark did it by taking whole files away, which tells no progress.
                jvm.append_nothing(summary, self._branch)
            reached(Moment.BRANCH_WRITTEN)
            jvm.publish_branch(self._branch)
            reached(Moment.AFTER_MIRROR_COMMIT)
        finally:
            jvm.drop_branch(self._branch)

    def _execute(self, statement: str, summary: dict[str, str]) -> None:
        # The summary goes by session conf, the only way that reaches MERGE; each thread has a session of its own.
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


def still_at(table: Table, progress: Progress) -> Table:
    """The mirror as it is now. Raises StaleRunError where that is not `progress`, where this run has left it: what
    another has published since must not be merged again, nor taken back."""
    table = table.refresh()
    found = progress_of(table)
    if found != progress:
        raise stale(table, progress, found)
    return table
