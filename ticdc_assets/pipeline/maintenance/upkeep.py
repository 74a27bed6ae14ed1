"""Keeps the files and snapshots of a lake that many small runs write bounded, in short steps between the runs.

One round visits every table of the changefeed: a table of more than `compaction.FILES_MAX` files is compacted, old
records are thinned, and snapshots that no record names are expired. Files stay on disk until `maintenance.maintain`
removes them by its own rules of age.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from pyiceberg.table import Table

from ticdc_assets.errors import LakeError
from ticdc_assets.faults import of_one_table
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.maintenance import DAYS_KEPT, each_table
from ticdc_assets.spark import SparkWorkers, Workers
from ticdc_assets.tables.control.retention import thin
from ticdc_assets.tables.iceberg.jvm import JvmCatalog
from ticdc_assets.tables.maintenance.compaction import (
    FILES_MAX,
    FileCounts,
    compact,
    counts_of,
    file_schema,
    has_many_files,
    merge_groups,
    replace_files,
    small_files,
)
from ticdc_assets.tables.maintenance.rewrite_worker import RewriteTask, rewrite
from ticdc_assets.tables.maintenance.snapshot_expiry import expire, expiry_of
from ticdc_assets.tables.progress import source_table_of

ROUND_EVERY_S: Final = 30.0
STEPS_S: Final = 2.0
"""How long after a run new steps begin, so that the next run is late by one step at most."""

MINUTES_KEPT: Final = 10
"""How long every record and its snapshots stay. After that the last record of each hour stays."""
HOURS_KEPT: Final = 24
_ADVICE: Final = "Its rows are whole, and runs go on; `ticdc-assets maintain --compact` shows whether the fault stays."
EXPIRED_MIN: Final = 20
"""Fewer snapshots are not worth a commit."""


@dataclass(slots=True)
class UpkeepTotals:
    """What was done since the process began."""

    files_compacted: int = 0
    snapshots_expired: int = 0
    records_removed: int = 0


class Upkeep:
    """The upkeep of one changefeed. `jvm` gives the catalog in the running Spark session."""

    def __init__(self, jvm: Callable[[], JvmCatalog]) -> None:
        self._jvm = jvm
        self._steps: Iterator[None] | None = None
        self._next_round_s = time.monotonic() + ROUND_EVERY_S
        self.totals = UpkeepTotals()
        self.files: FileCounts | None = None

    def work(self, lake: Lake) -> None:
        """Take steps for up to STEPS_S, and one at least, where a round is due.

        An error of one table is raised at the end of the round, after the work on the other tables. Any other error
        ends the round.
        """
        began_s = time.monotonic()
        if self._steps is None:
            if began_s < self._next_round_s:
                return
            self._steps = self._round(lake)
        steps, self._steps = self._steps, None
        try:
            for _ in steps:
                if time.monotonic() - began_s >= STEPS_S:
                    self._steps = steps
                    return
        finally:
            if self._steps is None:
                self._next_round_s = time.monotonic() + ROUND_EVERY_S

    def _round(self, lake: Lake) -> Iterator[None]:
        files, faults = FileCounts(), _Faults()
        for table in each_table(lake):
            if source_table_of(table) is not None and has_many_files(table):
                with faults.of(table):
                    self._compact(table)
                table = table.refresh()
            files += counts_of(table)
            yield
        self.files = files
        now = datetime.now(UTC)
        older_than = now - timedelta(minutes=MINUTES_KEPT)
        thinned = thin(lake.control, older_than, DAYS_KEPT, now, write=True, hours_kept=HOURS_KEPT)
        self.totals.records_removed += thinned.removed
        yield
        for table in each_table(lake):
            if len(expiry_of(table.metadata, thinned.kept_ids, older_than).snapshot_ids) >= EXPIRED_MIN:
                with faults.of(table):
                    found = expire(lake.catalog, self._jvm, table, thinned.kept_ids, older_than)
                    self.totals.snapshots_expired += len(found.snapshot_ids)
            yield
        faults.raise_first()

    def _compact(self, table: Table) -> None:
        jvm = self._jvm()
        self.totals.files_compacted += compact_small(jvm, SparkWorkers(jvm.spark), table)


class _Faults:
    """The errors of single tables in one round. They do not stop the work on the other tables."""

    def __init__(self) -> None:
        self._first: LakeError | None = None

    @contextmanager
    def of(self, table: Table) -> Iterator[None]:
        """Keep an error that is of this table alone; raise any other."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  raised again where it is not of one table
            # A lake without this file or room for it may have those of the next table.
            found = error if isinstance(error, LakeError) else of_one_table(error)
            where = f"upkeep of {'.'.join(table.name())}, {found.where}"
            self._first = self._first or LakeError(where, found.expected, found.found, _ADVICE)

    def raise_first(self) -> None:
        """Raise the first error, if any."""
        if self._first is not None:
            raise self._first


def compact_small(
    jvm: JvmCatalog, workers: Workers, table: Table, otherwise: Callable[[JvmCatalog, Table], int] = compact
) -> int:
    """Rewrite the table's small files. Returns how many files were rewritten. Rows, progress and row ids stay as they
    are.

    `otherwise` is called if the table has too many files of another kind. Where another writer commits
    first, nothing is rewritten.
    """
    if table.current_snapshot() is None:
        return 0
    java = jvm.load(table.name())
    files = small_files(java, table)
    groups = merge_groups(files) if files is not None else []
    gone = sum(len(group) - 1 + sum(file.java_vector is not None for file in group) for group in groups)
    if not groups or counts_of(table).all - gone > FILES_MAX // 2:
        return otherwise(jvm, table)
    schema, folder = file_schema(table), f"{table.location().rstrip('/')}/data"
    properties = {name: str(value) for name, value in table.io.properties.items()}
    tasks = [
        RewriteTask(tuple(f.old for f in group), schema, f"{folder}/{uuid.uuid4().hex}.parquet", properties)
        for group in groups
    ]
    written = workers.map(rewrite, tasks)
    if replace_files(java, table, groups, written):
        return sum(len(group) for group in groups)
    return 0  # the new files may be in the table; maintenance removes those that are not
