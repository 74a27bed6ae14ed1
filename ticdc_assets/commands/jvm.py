"""Spark in a command: it starts when the command needs it, and stops when the command ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ticdc_assets import spark
from ticdc_assets.assets.known_tables import log_folder
from ticdc_assets.commands.output.terminal import noise_kept_in

if TYPE_CHECKING:
    from ticdc_assets.config import Config
    from ticdc_assets.tables.iceberg.jvm import JvmCatalog


def jvm_of(config: Config) -> Callable[[], JvmCatalog]:
    """A function that returns the catalog; its first call starts Spark."""

    def jvm() -> JvmCatalog:
        from ticdc_assets.tables.iceberg.jvm import JvmCatalog

        return JvmCatalog(spark.session(config), config.catalog.name)

    return jvm


@contextmanager
def spark_stopped_after(config: Config, log: str = "run.log") -> Iterator[None]:
    """Stop Spark at the end, if it was started. The output of libraries goes to a log in the state folder."""
    with noise_kept_in(log_folder(config) / log):
        try:
            yield
        finally:
            spark.stop()
