"""A catalog in an SQL database that parses a metadata file once.

A run loads each of its tables several times to see whether another run has changed it. The database has the place of a
table's metadata file. Such a file never changes, so one that was parsed before is not read again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from functools import cached_property
from typing import Any, Final

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.io import load_file_io
from pyiceberg.table import CommitTableResponse, StagedTable, Table
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Identifier
from sqlalchemy import Select, bindparam, select

from ticdc_assets.tables.iceberg.metadata import read, updated

SNAPSHOTS_MAX: Final = 20_000
"""How many snapshots the kept metadata may have in total; one takes about 3 kB."""


class KeptMetadata:
    """The metadata of the tables that were used last, by the URI of the file. Threads may use it at the same time."""

    def __init__(self, snapshots_max: int = SNAPSHOTS_MAX) -> None:
        self._snapshots_max = snapshots_max
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, str], tuple[str, TableMetadata]] = OrderedDict()
        self._snapshots = 0

    def get(self, namespace: str, name: str) -> tuple[str, TableMetadata] | None:
        """The newest kept metadata of a table, with the URI of their file."""
        with self._lock:
            found = self._kept.get((namespace, name))
            if found is not None:
                self._kept.move_to_end((namespace, name))
            return found

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
    """The SQL catalog of pyiceberg with kept metadata. It asks the database without SQLAlchemy's object mapper, which
    takes longer than all the rest of a load."""

    def __init__(self, name: str, **properties: Any) -> None:
        self._metadata = KeptMetadata()
        super().__init__(name, **properties)

    def load_table(self, identifier: str | Identifier) -> Table:
        """See `Catalog`."""
        namespace = Catalog.namespace_to_string(Catalog.namespace_from(identifier))
        name = Catalog.table_name_from(identifier)
        with self.engine.connect() as connection:
            row = connection.execute(self._row_of, {"namespace": namespace, "name": name}).one_or_none()
        if row is None or not row.metadata_location:
            raise NoSuchTableError(f"Table does not exist: {namespace}.{name}")
        # As they are stored: a database may ignore case.
        namespace, name, uri = row.table_namespace, row.table_name, row.metadata_location
        metadata = self._read(namespace, name, uri)
        io = self._load_file_io(metadata.properties, uri)
        return Table((*Catalog.identifier_to_tuple(namespace), name), metadata, uri, io, self)

    @cached_property
    def _row_of(self) -> Select[Any]:
        columns = IcebergTables.__table__.c
        where = [
            columns.catalog_name == self.name,
            columns.table_namespace == bindparam("namespace"),
            columns.table_name == bindparam("name"),
        ]
        is_table = self._iceberg_type_filter()
        wanted = select(columns.table_namespace, columns.table_name, columns.metadata_location)
        return wanted.where(*where, *([] if is_table is None else [is_table]))

    def _read(self, namespace: str, name: str, uri: str) -> TableMetadata:
        kept = self._metadata.get(namespace, name)
        if kept is not None and kept[0] == uri:
            return kept[1]
        found = read(load_file_io(self.properties, uri).new_input(uri), kept[1] if kept is not None else None)
        self._metadata.keep(namespace, name, uri, found)
        return found

    def _update_and_stage_table(
        self, current_table: Table | None, table_identifier: Identifier, requirements: Any, updates: Any
    ) -> StagedTable:
        """pyiceberg's, without a copy of all snapshots."""
        if current_table is None:
            return super()._update_and_stage_table(None, table_identifier, requirements, updates)
        for requirement in requirements:
            requirement.validate(current_table.metadata)
        uri = current_table.metadata_location
        fresh = updated(current_table.metadata, updates, uri)
        places = load_location_provider(fresh.location, fresh.properties)
        fresh_uri = places.new_table_metadata_file_location(self._parse_metadata_version(uri) + 1)
        io = self._load_file_io(fresh.properties, fresh_uri)
        return StagedTable(table_identifier, fresh, fresh_uri, io, self)

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        """See `Catalog`."""
        response = super().commit_table(table, requirements, updates)
        namespace = Catalog.namespace_to_string(Catalog.namespace_from(table.name()))
        self._metadata.keep(
            namespace, Catalog.table_name_from(table.name()), response.metadata_location, response.metadata
        )
        return response
