"""The Maven packages that Spark's JVM needs for a catalog and its object store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ticdc_assets.config.model.object_store import StoreType

if TYPE_CHECKING:
    from ticdc_assets.config import CatalogConfig

ICEBERG_VERSION: Final = "1.12.0"
_ICEBERG: Final = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13"
ICEBERG_PACKAGE: Final = f"{_ICEBERG}:{ICEBERG_VERSION}"
_SQLITE: Final = "org.xerial:sqlite-jdbc"
WITHOUT_DEPENDENCIES: Final = frozenset({_ICEBERG, _SQLITE})
"""Packages that need no others at run time, without their versions."""

_OF_DATABASES: Final = {
    "sqlite": f"{_SQLITE}:3.54.1.0",
    "postgresql": "org.postgresql:postgresql:42.7.4",
    "mysql": "com.mysql:mysql-connector-j:9.1.0",
    "mariadb": "org.mariadb.jdbc:mariadb-java-client:3.5.1",
}
_OF_STORES: Final = {
    StoreType.S3: f"org.apache.iceberg:iceberg-aws-bundle:{ICEBERG_VERSION}",
    StoreType.GCS: f"org.apache.iceberg:iceberg-gcp-bundle:{ICEBERG_VERSION}",
    StoreType.AZURE: f"org.apache.iceberg:iceberg-azure-bundle:{ICEBERG_VERSION}",
}
_SIGNED: Final = "rest.sigv4-enabled"


def packages_of(catalog: CatalogConfig, more: str = "") -> list[str]:
    """The value of `spark.jars.packages`: the project's own packages, then those of `more`, in the user's notation.

    A package in `more` replaces the project's version of it.
    """
    written = [package.strip() for package in more.split(",") if package.strip()]
    named = {_unversioned(package) for package in written}
    return [package for package in _needed(catalog) if _unversioned(package) not in named] + written


def _needed(catalog: CatalogConfig) -> list[str]:
    found = [ICEBERG_PACKAGE]
    if catalog.type == "sql":
        package = _OF_DATABASES.get((catalog.uri or "").partition(":")[0].partition("+")[0])
        found += [package] if package else []
    store = catalog.store_type
    if store is None and catalog.properties.get(_SIGNED) == "true":
        store = StoreType.S3  # the jar of S3 also signs requests
    return found + ([_OF_STORES[store]] if store is not None else [])


def _unversioned(package: str) -> str:
    return package.rpartition(":")[0]
