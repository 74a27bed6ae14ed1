"""The Iceberg catalog as pyiceberg opens it; Spark opens the same one (`ticdc_assets/spark/settings.py`)."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow.fs as pafs
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.exceptions import NoSuchTableError, NotInstalledError
from pyiceberg.io import load_file_io
from pyiceberg.table import CommitTableResponse, StagedTable, Table
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Identifier
from sqlalchemy import Select, bindparam, select

from ticdc_assets.catalog_answers import advice_for_catalog
from ticdc_assets.config import CatalogConfig
from ticdc_assets.config.model.object_store import PYARROW_ADVICE, StoreType
from ticdc_assets.errors import ConfigError, SourceError
from ticdc_assets.faults import redacted_error
from ticdc_assets.tables.iceberg.metadata import read, updated

if TYPE_CHECKING:
    from pyiceberg.catalog.hive import HiveCatalog


BUSY_SECONDS_MAX: Final = 30
_OPENING_TRIES: Final = 4
_OPENING_PAUSE_S: Final = 0.1

_SQLITE: Final = "sqlite:///"
_FILE_SYSTEMS: Final = {
    StoreType.S3: "S3FileSystem",
    StoreType.GCS: "GcsFileSystem",
    StoreType.AZURE: "AzureFileSystem",
}
_PACKAGES: Final = {"psycopg2": "psycopg2-binary", "MySQLdb": "mysqlclient"}
"""What to install for a module of another name."""
_NAMESPACES = threading.Lock()
SNAPSHOTS_MAX: Final = 20_000
"""How many snapshots the kept metadata may have in total; one takes about 3 kB."""


def open_catalog(config: CatalogConfig, folder: str | None = None) -> Catalog:
    """The catalog of the config. Makes the folder of an embedded one; raises SourceError where it cannot be opened.

    Raises ConfigError where the database of an embedded one is gone and there are tables below `folder` of its
    warehouse.
    """
    properties = {"type": config.type, "uri": _patient(config.uri), **config.pyiceberg_properties}
    _require_file_system(config)
    if config.type == "sql":
        _require_its_database(config, folder)
        _make_folders(config)
        properties["init_catalog_tables"] = "true"
    properties["warehouse"] = config.iceberg_warehouse
    options = {k: v for k, v in properties.items() if v is not None}
    try:
        return _opened(config, options)
    except (ImportError, NotInstalledError) as error:
        raise _not_installed(config, error) from None
    except Exception as error:  # noqa: BLE001  every library has kinds of its own
        fault = redacted_error(error)
        known = advice_for_catalog(type(error).__name__)
        other = f"{fault.advice} Or check `catalog:` in the config: type, uri and warehouse."
        advice = other if known is None else f"{known} Then run again."
        where = f"catalog {config.name}"
        raise SourceError(where, "a catalog that can be opened", fault.found, advice) from None


def _opened(config: CatalogConfig, properties: dict[str, str]) -> Catalog:
    # If several processes open a new database at once, one creates each of its tables, and the others fail at that
    # table.
    tries = _OPENING_TRIES if config.type == "sql" else 1
    for number in range(1, tries):
        try:
            return _loaded(config, properties)
        except Exception:  # noqa: BLE001  every library has kinds of its own; the last try raises it
            time.sleep(_OPENING_PAUSE_S * number)
    return _loaded(config, properties)


def _loaded(config: CatalogConfig, properties: dict[str, str]) -> Catalog:
    catalog = load_catalog(config.name, **properties)
    if config.type == "hive":
        serve_threads(cast("HiveCatalog", catalog))
    if not isinstance(catalog, SqlCatalog):
        return catalog
    catalog.engine.dispose()
    return KeepingSqlCatalog(catalog.name, **catalog.properties)  # including pyiceberg's own settings


def _require_file_system(config: CatalogConfig) -> None:
    """Raise ConfigError where pyarrow was built without the warehouse's store."""
    store = config.store_type
    if store is None:
        return
    name = _FILE_SYSTEMS[store]
    try:
        getattr(pafs, name)
    except (ImportError, AttributeError):
        raise ConfigError("catalog.warehouse", f"a pyarrow with {name}", "one without", PYARROW_ADVICE) from None


def _not_installed(config: CatalogConfig, error: Exception) -> ConfigError:
    """The error of a catalog whose library is not there."""
    cause = error if isinstance(error, ImportError) else error.__cause__
    missing = cause.name if isinstance(cause, ImportError) else None
    package = _PACKAGES.get(missing or "", missing) or f"'pyiceberg[{config.type}]'"
    found = f"no module {missing}" if missing else "none"
    return ConfigError(f"catalog {config.name}", "the library of this catalog", found, f"Run: pip install {package}")


def _patient(uri: str | None) -> str | None:
    """The URI with the timeout for other writers that Spark has."""
    return f"{uri}?timeout={BUSY_SECONDS_MAX}" if uri and uri.startswith(_SQLITE) and "?" not in uri else uri


def _require_its_database(config: CatalogConfig, folder: str | None) -> None:
    """Refuse to create tables over the files of tables whose catalog is lost."""
    if not (folder and config.uri and config.uri.startswith(_SQLITE)) or not config.warehouse:
        return
    path = Path(config.uri.removeprefix(_SQLITE).partition("?")[0])
    tables = Path(config.warehouse) / folder
    if path.name and not path.exists() and any(tables.glob("**/metadata/*.metadata.json")):
        advice = f"Restore it from a copy; or, if the source has all data, move {tables} away to read it again."
        raise ConfigError(str(path), "the catalog's database, since its warehouse holds tables", "none", advice)


def _make_folders(config: CatalogConfig) -> None:
    if config.uri and config.uri.startswith(_SQLITE):
        Path(config.uri.removeprefix(_SQLITE)).parent.mkdir(parents=True, exist_ok=True)
    if config.warehouse and "://" not in config.warehouse:
        Path(config.warehouse).mkdir(parents=True, exist_ok=True)


def ensure_namespace(catalog: Catalog, namespace: Identifier) -> None:
    """Make the namespace and all above it."""
    with _NAMESPACES:
        for depth in range(1, len(namespace) + 1):
            _create_namespace(catalog, namespace[:depth])


def _create_namespace(catalog: Catalog, namespace: Identifier) -> None:
    try:
        catalog.create_namespace_if_not_exists(namespace)
    except Exception:
        # Catalogs report a lost race in their own ways (SQL: a broken constraint); what counts is that it is there.
        if not catalog.namespace_exists(namespace):
            raise


def load_or_none(catalog: Catalog, identifier: Identifier) -> Table | None:
    """The table; None where there is none."""
    try:
        return catalog.load_table(identifier)
    except NoSuchTableError:
        return None


# Connections to a Hive metastore for the threads of a run.
#
# pyiceberg's catalog has one connection. A run creates and commits its tables in several threads, whose requests
# would mix in it, and the first thread that is done would close it for the others.


class ConnectionForEachUse:
    """Takes the place of pyiceberg's connection: each `with` has a connection of its own."""

    def __init__(self, connect: Callable[[], AbstractContextManager[Any]]) -> None:
        self._connect = connect
        self._of_thread = threading.local()

    def __enter__(self) -> Any:
        connection = self._connect()
        client = connection.__enter__()
        self._open.append(connection)
        return client

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return self._open.pop().__exit__(kind, error, trace)

    @property
    def _open(self) -> list[AbstractContextManager[Any]]:
        found: list[AbstractContextManager[Any]] = self._of_thread.__dict__.setdefault("open", [])
        return found


def serve_threads(catalog: HiveCatalog) -> None:
    """Let threads use the catalog at the same time."""
    connect = catalog._create_hive_client  # noqa: SLF001  pyiceberg has no public name for either
    connections: Any = ConnectionForEachUse(lambda: connect(catalog.properties))
    catalog._client = connections  # noqa: SLF001


# A catalog in an SQL database that parses a metadata file once.
#
# A run loads each of its tables several times to see whether another run has changed it. The database has the place
# of a table's metadata file. Such a file never changes, so one that was parsed before is not read again.


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
