"""The Maven packages that Spark's JVM needs for a catalog and its object store, and their jars on Java's class path."""

from __future__ import annotations

import fcntl
import os
import pwd
import re
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ticdc_assets.config.model.object_store import StoreType
from ticdc_assets.errors import MachineError

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
IVY: Final = "spark.jars.ivy"
_IVY_FOLDER: Final = ".ivy2.5.2"
"""Where Spark keeps downloaded packages, below the user's home folder."""
_CLASS_PATH: Final = "SPARK_DIST_CLASSPATH"
"""Spark's scripts put it after Spark's own jars, so that no class of Spark is replaced."""

_IN_ONE_JVM: Final = re.compile(r"local(\[.*\])?")
_SEARCHED: Final = ("spark.jars", "spark.files", "spark.submit.pyFiles", "spark.driver.userClassPathFirst")
"""Settings with which users control how Spark loads jars."""


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


def ivy_folder() -> str | None:
    """The folder for Spark's packages; None if Spark's default, below the user's home folder, can be written."""
    home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    folder = home / _IVY_FOLDER
    if os.access(folder if folder.exists() else home, os.W_OK | os.X_OK):
        return None
    return str(Path(tempfile.gettempdir()) / f"ticdc-assets-ivy-{os.getuid()}")


@contextmanager
def packages_fetched_once(packages: str, folder: str | None) -> Iterator[tuple[Path, ...]]:
    """One process at a time downloads missing packages; processes that find them all start together. These are given
    the packages' jars, the one that downloads is given none.

    A partial download is never taken for a complete one: processes look for packages only while they hold the lock.
    """
    place = _place(folder)
    place.mkdir(parents=True, exist_ok=True)
    with (place / "ticdc-assets.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        jars = _jars_of(packages, place / "jars")
        fcntl.flock(lock, fcntl.LOCK_UN)
        if jars is not None:
            yield jars
            return
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield ()


def require_jars(packages: str, folder: str | None, log: str) -> None:
    """Raise MachineError where a package is missing, after Java could not start.

    Args:
        log: the place of Spark's output, which has the answers of the repositories.
    """
    place = _place(folder) / "jars"
    missing = [package for package in map(str.strip, packages.split(",")) if package and not _jars_of(package, place)]
    if missing:
        advice = (
            "Let this machine reach Maven Central; or name your own repository in `spark: {conf: "
            f"{{spark.jars.repositories: URL}}}}`; then run again. {log} has the answers."
        )
        raise MachineError(f"the first start of Spark, {place}", ", ".join(missing), "no such jar", advice)


def _place(folder: str | None) -> Path:
    return Path(folder) if folder is not None else Path(pwd.getpwuid(os.getuid()).pw_dir) / _IVY_FOLDER


def _jars_of(packages: str, folder: Path) -> tuple[Path, ...] | None:
    """The jars of the packages; None where one is missing."""
    parts = [part.strip().split(":") for part in packages.split(",") if part.strip()]
    jars = tuple(folder / f"{part[0]}_{part[1]}-{part[-1]}.jar" for part in parts if len(part) == 3)
    return jars if len(jars) == len(parts) and all(jar.is_file() for jar in jars) else None


# -- the class path ----------------------------------------------------------------------------------------------------

# Jars that Spark takes from its own search for packages are loaded by a class loader of their own, after the search,
# and are copied for the executors. A driver that runs all tasks in its own JVM needs none of that.


def may_be_on_class_path(
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


def with_class_path(environ: Mapping[str, str], jars: Sequence[Path]) -> dict[str, str]:
    """The environment of Spark's scripts with these jars at the end of the class path."""
    present = [environ[_CLASS_PATH]] if environ.get(_CLASS_PATH) else []
    return {**environ, _CLASS_PATH: ":".join((*present, *map(str, jars)))}
