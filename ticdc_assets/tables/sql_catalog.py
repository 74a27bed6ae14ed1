"""A catalog in an SQL database that parses a metadata file once.

A run loads each of its tables several times to see whether another run has changed it. The database says where a
table's metadata is; a metadata file never changes, so that one which was parsed before is not read again. To parse one
takes 45 us for each snapshot of the table.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any, Final

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadata

SNAPSHOTS_MAX: Final = 20_000
"""How many snapshots the kept metadata may have in total; one takes about 3 kB."""


class KeptMetadata:
    """The metadata of the tables that were used last, by the URI of the file. Threads may use it at the same time."""

    def __init__(self, snapshots_max: int = SNAPSHOTS_MAX) -> None:
        self._snapshots_max = snapshots_max
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, str], tuple[str, TableMetadata]] = OrderedDict()
        self._snapshots = 0

    def get(self, namespace: str, name: str, uri: str) -> TableMetadata | None:
        """The metadata in this file; None where it is not kept."""
        with self._lock:
            found = self._kept.get((namespace, name))
            if found is None or found[0] != uri:
                return None
            self._kept.move_to_end((namespace, name))
            return found[1]

    def keep(self, namespace: str, name: str, uri: str, metadata: TableMetadata) -> None:
        """Keep the metadata in place of the table's former one."""
        with self._lock:
            former = self._kept.pop((namespace, name), None)
            self._kept[namespace, name] = (uri, metadata)
            self._snapshots += len(metadata.snapshots) - (len(former[1].snapshots) if former else 0)
            while self._snapshots > self._snapshots_max:
                _, (_, oldest) = self._kept.popitem(last=False)
                self._snapshots -= len(oldest.snapshots)


class KeepingSqlCatalog(SqlCatalog):
    """The SQL catalog of pyiceberg with kept metadata."""

    def __init__(self, name: str, **properties: Any) -> None:
        self._metadata = KeptMetadata()
        super().__init__(name, **properties)

    def _convert_orm_to_iceberg(self, orm_table: IcebergTables) -> Table:
        namespace, name, uri = orm_table.table_namespace, orm_table.table_name, orm_table.metadata_location
        metadata = self._metadata.get(namespace, name, uri) if uri else None
        if metadata is None or uri is None:
            table = super()._convert_orm_to_iceberg(orm_table)
            self._metadata.keep(namespace, name, table.metadata_location, table.metadata)
            return table
        io = self._load_file_io(metadata.properties, uri)
        return Table((*Catalog.identifier_to_tuple(namespace), name), metadata, uri, io, self)

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        """See `Catalog`."""
        response = super().commit_table(table, requirements, updates)
        namespace = Catalog.namespace_to_string(Catalog.namespace_from(table.name()))
        self._metadata.keep(
            namespace, Catalog.table_name_from(table.name()), response.metadata_location, response.metadata
        )
        return response
