"""Jars on Java's class path.

Jars that Spark takes from its own search for packages are loaded by a class loader of their own, after the search, and
are copied for the executors. A driver that runs all tasks in its own JVM needs none of that.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

VARIABLE: Final = "SPARK_DIST_CLASSPATH"
"""Spark's scripts put it after Spark's own jars, so that no class of Spark is replaced."""

_IN_ONE_JVM: Final = re.compile(r"local(\[.*\])?")
_SEARCHED: Final = ("spark.jars", "spark.files", "spark.submit.pyFiles", "spark.driver.userClassPathFirst")
"""Settings with which users control how Spark loads jars."""


def is_possible(
    conf: Mapping[str, str], packages: Sequence[str], alone: Collection[str], environ: Mapping[str, str]
) -> bool:
    """Whether the packages can be on the class path.

    Args:
        alone: packages that need no others, without their versions.
    """
    return (
        _IN_ONE_JVM.fullmatch(conf["spark.master"]) is not None
        and not any(name in conf for name in _SEARCHED)
        and all(package.rpartition(":")[0] in alone for package in packages)
        and not _has_script(environ)
    )


def _has_script(environ: Mapping[str, str]) -> bool:
    """Whether Spark reads a spark-env.sh, which may set the variable to something else."""
    folder = environ.get("SPARK_CONF_DIR") or spark_home() / "conf"
    return (Path(folder) / "spark-env.sh").exists()


def spark_home() -> Path:
    """The folder of the Spark that PySpark starts."""
    from pyspark.find_spark_home import _find_spark_home

    return Path(_find_spark_home())


def extended(environ: Mapping[str, str], jars: Sequence[Path]) -> dict[str, str]:
    """The environment of Spark's scripts with these jars at the end of the class path."""
    present = [environ[VARIABLE]] if environ.get(VARIABLE) else []
    return {**environ, VARIABLE: ":".join((*present, *map(str, jars)))}
