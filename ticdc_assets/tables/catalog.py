"""The Iceberg catalog as pyiceberg opens it; Spark opens the same one (`spark.catalog_conf`)."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from ticdc_assets.errors import SourceError

if TYPE_CHECKING:
    from ticdc_assets.config import CatalogConfig

Identifier = tuple[str, ...]

_NAMESPACES = threading.Lock()


def open_catalog(config: CatalogConfig) -> Catalog:
    """The catalog of the config. Makes the folder of an embedded one; raises SourceError where it cannot be opened."""
    properties = {"type": config.type, "uri": config.uri, **{k: str(v) for k, v in config.properties.items()}}
    if config.type == "sql":
        _make_folders(config)
        properties["init_catalog_tables"] = "true"
    properties["warehouse"] = config.warehouse_uri
    try:
        return load_catalog(config.name, **{k: v for k, v in properties.items() if v is not None})
    except Exception as error:  # noqa: BLE001  every library has kinds of its own
        raise SourceError(
            f"catalog {config.name}",
            "a catalog that can be opened",
            type(error).__name__,
            "Look at `catalog:` in the config: type, uri and warehouse.",
        ) from None  # what libraries say of an address holds its password


def _make_folders(config: CatalogConfig) -> None:
    if config.uri and config.uri.startswith("sqlite:///"):
        Path(config.uri.removeprefix("sqlite:///")).parent.mkdir(parents=True, exist_ok=True)
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
    try:
        return catalog.load_table(identifier)
    except NoSuchTableError:
        return None
