"""The Iceberg catalog as pyiceberg opens it; Spark opens the same one (`ticdc_assets/spark/catalog_settings.py`)."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import pyarrow.fs as pafs
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError, NotInstalledError
from pyiceberg.table import Table
from pyiceberg.typedef import Identifier

from ticdc_assets.catalog_answers import advice_for_catalog
from ticdc_assets.config.model.object_store import PYARROW_ADVICE, StoreType
from ticdc_assets.errors import ConfigError, SourceError
from ticdc_assets.faults import redacted_error
from ticdc_assets.tables.hive_connections import serve_threads
from ticdc_assets.tables.sql_catalog import KeepingSqlCatalog

if TYPE_CHECKING:
    from pyiceberg.catalog.hive import HiveCatalog

    from ticdc_assets.config import CatalogConfig

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
