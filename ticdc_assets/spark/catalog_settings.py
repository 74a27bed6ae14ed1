"""Spark's settings for the catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ticdc_assets.errors import ConfigError

if TYPE_CHECKING:
    from ticdc_assets.config import Config

CATALOGS: Final = "spark.sql.catalog."

_LOGIN: Final = "credential"
_EXCHANGE: Final = "token-exchange-enabled"


def catalog_conf(config: Config) -> dict[str, str]:
    """Spark's settings for the catalog that pyiceberg opens from the same config."""
    catalog = config.catalog
    prefix = f"{CATALOGS}{catalog.name}"
    conf = {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        f"{prefix}.type": {"sql": "jdbc"}.get(catalog.type, catalog.type),
        f"{prefix}.cache-enabled": "false",  # else Spark reads stale tables until REFRESH TABLE
    }
    if catalog.iceberg_warehouse is not None:
        conf[f"{prefix}.warehouse"] = catalog.iceberg_warehouse
    if catalog.type == "sql":
        conf[f"{prefix}.jdbc.schema-version"] = "V1"
        conf.update({f"{prefix}.{key}": value for key, value in _jdbc(catalog.uri or "").items()})
    elif catalog.uri is not None:
        conf[f"{prefix}.uri"] = catalog.uri
    if _LOGIN in catalog.properties:
        # Else Java exchanges a token that expires for a new one instead of logging in again, as pyiceberg does. Where
        # the identity provider exchanges none, each request after that is refused.
        conf[f"{prefix}.{_EXCHANGE}"] = "false"
    conf.update({f"{prefix}.{key}": str(value) for key, value in catalog.java_properties.items()})
    return conf


def _jdbc(uri: str) -> dict[str, str]:
    """The JDBC URI of the database that SQLAlchemy opens by this URI."""
    from sqlalchemy import URL, make_url

    url = make_url(uri)
    kind = url.get_backend_name()
    if kind == "sqlite":
        if url.database in {None, "", ":memory:"}:
            advice = "Name a file: uri: sqlite:////folder/catalog.db."
            raise ConfigError(
                "catalog.uri", "a database that Spark can open too", "one in this process's memory", advice
            )
        return {"uri": f"jdbc:sqlite:{url.database}?busy_timeout=30000"}  # wait for another writer instead of failing
    bare = URL.create(kind, host=url.host, port=url.port, database=url.database, query=url.query).render_as_string()
    login = {"jdbc.user": url.username, "jdbc.password": url.password}
    return {"uri": f"jdbc:{bare}", **{key: str(value) for key, value in login.items() if value is not None}}
