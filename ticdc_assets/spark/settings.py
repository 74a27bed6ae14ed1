"""Spark's settings, from the config."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ticdc_assets.config.reading.secrets import Settings
from ticdc_assets.errors import ConfigError
from ticdc_assets.spark.packages import packages_of

if TYPE_CHECKING:
    from ticdc_assets.config import Config


PACKAGES: Final = "spark.jars.packages"
_SENT_PACKAGES: Final = "spark.submit.pyFiles"
_IMPORT_PATH: Final = "spark.executorEnv.PYTHONPATH"
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_LOCAL_CONF: Final[dict[str, str]] = {  # workers on other machines could not reach this address
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
_CONF: Final[dict[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",  # else columns of TiDB may be one for Spark, such as s and the long s
    "spark.driver.memory": "2g",
    # A run ends before Java's optimised code pays off: compiling it took much of Java's time. Loops that stay hot, as
    # in a large MERGE, are still optimised.
    _JAVA_OPTIONS: (
        "-XX:+IgnoreUnrecognizedVMOptions -XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 "
        "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
    ),
    "spark.python.daemon.module": "ticdc_assets.pipeline.python_daemon",
    # A worker returns free memory to the system, so that it does not grow with each task, but not page by page.
    "spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL": "system",
    "spark.executorEnv.GLIBC_TUNABLES": ":".join(
        (
            f"glibc.malloc.mmap_threshold={4 << 20}",
            f"glibc.malloc.trim_threshold={64 << 20}",
            "glibc.malloc.hugetlb=1",
            "glibc.malloc.arena_max=2",
        )
    ),
    "spark.log.structuredLogging.enabled": "false",
    "spark.redaction.regex": "(?i)secret|password|token|(access|account)[.-]?key|credential|uri",
}
CATALOGS: Final = "spark.sql.catalog."

_LOGIN: Final = "credential"
_EXCHANGE: Final = "token-exchange-enabled"


def session_conf(config: Config) -> dict[str, str]:
    """All settings of Spark, with the user's `spark.conf` last."""
    extra = dict(config.spark.conf)
    return {
        "spark.master": config.spark.master,
        PACKAGES: ",".join(packages_of(config.catalog, extra.pop(PACKAGES, ""))),
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        **_CONF,
        **(_LOCAL_CONF if is_local(config.spark.master) else {}),
        **catalog_conf(config),
        **extra,
        **_path_to_sent_packages(extra),
    }


def for_a_long_session(config: Config) -> Config:
    """The config of a process whose session serves many runs: Java optimises as early as it does by default."""
    options = {_JAVA_OPTIONS: "-XX:+IgnoreUnrecognizedVMOptions", **config.spark.conf}
    return replace(config, spark=replace(config.spark, conf=Settings(options, config.spark.conf.hidden)))


def is_local(master: str) -> bool:
    """Whether Spark's workers run on this machine."""
    return master.startswith("local")


def _path_to_sent_packages(conf: Mapping[str, str]) -> dict[str, str]:
    """The import path with the packages that Spark sends to workers, which find them in their working folder.

    Spark adds them after a worker has started. The process that starts workers already needs this package.

    Raises:
        ConfigError: a package is no zip file, so that Python would not import it.
    """
    files = [entry.strip() for entry in conf.get(_SENT_PACKAGES, "").split(",") if entry.strip()]
    for entry in files:
        if not entry.endswith((".zip", ".egg")):
            advice = "Copy a wheel to a name that ends in .zip, and name that."
            raise ConfigError(f"spark.conf.{_SENT_PACKAGES}", "names of .zip or .egg files", repr(entry), advice)
    paths = [entry.rpartition("/")[2] for entry in files] + [conf.get(_IMPORT_PATH, "")]
    return {_IMPORT_PATH: ":".join(filter(None, paths))} if files else {}


# -- the catalog -------------------------------------------------------------------------------------------------------


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
