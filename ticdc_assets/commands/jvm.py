"""Starts Iceberg's catalog in Spark's JVM only when a command needs it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ticdc_assets import spark

if TYPE_CHECKING:
    from ticdc_assets.config import Config
    from ticdc_assets.tables.iceberg.jvm import JvmCatalog


def jvm_of(config: Config) -> Callable[[], JvmCatalog]:
    """A function that returns the catalog; its first call starts Spark."""

    def jvm() -> JvmCatalog:
        from ticdc_assets.tables.iceberg.jvm import JvmCatalog

        return JvmCatalog(spark.session(config), config.catalog.name)

    return jvm
