"""Spark's settings, from the config."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ticdc_assets.config.reading.secrets import Settings
from ticdc_assets.errors import ConfigError
from ticdc_assets.spark.catalog_settings import catalog_conf
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
