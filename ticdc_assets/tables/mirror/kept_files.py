"""The data files of mirrors at the snapshots that this process has committed last.

Iceberg opens all manifests of a snapshot to list its files, which takes longer than all the rest of a small commit. A
process that merges the next changes into its own snapshot knows them.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final
from uuid import UUID

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.tables.iceberg.row_delta import LiveDataFile

FILES_MAX: Final = 20_000
"""How many files may be kept of all mirrors; one takes about 1 kB."""


class KeptFiles:
    """The files by table and snapshot, one snapshot of each table. Threads may use it at the same time."""

    def __init__(self, files_max: int = FILES_MAX) -> None:
        self._files_max = files_max
        self._lock = threading.Lock()
        self._kept: OrderedDict[UUID, tuple[int, tuple[LiveDataFile, ...]]] = OrderedDict()
        self._files = 0

    def get(self, table: Table) -> tuple[LiveDataFile, ...] | None:
        """The data files of the current snapshot; None where they are not kept."""
        with self._lock:
            snapshot_id, files = self._kept.get(table.metadata.table_uuid, (None, ()))
            return files if snapshot_id is not None and snapshot_id == table.metadata.current_snapshot_id else None

    def keep(self, table: Table, snapshot_id: int, files: tuple[LiveDataFile, ...]) -> None:
        """Keep the files of a snapshot, unless there are too many, in place of those of an earlier one. Those of the
        tables that were written longest ago are forgotten."""
        with self._lock:
            _, former = self._kept.pop(table.metadata.table_uuid, (0, ()))
            self._files -= len(former)
            if len(files) > self._files_max:
                return
            self._kept[table.metadata.table_uuid] = (snapshot_id, files)
            self._files += len(files)
            while self._files > self._files_max:
                _, (_, oldest) = self._kept.popitem(last=False)
                self._files -= len(oldest)
