"""Iceberg's catalog in Spark's JVM, for a command that may need neither."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ticdc_assets import spark

if TYPE_CHECKING:
    from ticdc_assets.config import Config
    from ticdc_assets.tables.iceberg_jvm import JvmCatalog


def jvm_of(config: Config) -> Callable[[], JvmCatalog]:
    """Gives the catalog when it is called; Spark starts with the first call."""

    def jvm() -> JvmCatalog:
        from ticdc_assets.tables.iceberg_jvm import JvmCatalog

        return JvmCatalog(spark.session(config), config.catalog.name)

    return jvm
