"""Jars and archives of servers, fetched once by Maven into the user's cache."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

_POM = """<project><modelVersion>4.0.0</modelVersion><groupId>t</groupId><artifactId>t</artifactId><version>1</version>
<dependencies><dependency>
<groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>
<exclusions>{exclusions}</exclusions></dependency></dependencies></project>
"""
_EXCLUSION = "<exclusion><groupId>{}</groupId><artifactId>{}</artifactId></exclusion>"
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
FETCH_TIMEOUT_S = 600


def missing_tools(*names: str) -> list[str]:
    """Which of the programs are not on this machine."""
    return [name for name in names if shutil.which(name) is None]


def fetched(group: str, artifact: str, version: str, without: Sequence[str] = ()) -> Path:
    """A folder with the jar and all that it needs, but for what `without` names as group:artifact."""
    exclusions = "".join(_EXCLUSION.format(*package.split(":")) for package in without)

    def fetch(folder: Path) -> None:
        pom = folder / "pom.xml"
        pom.write_text(_POM.format(group=group, artifact=artifact, version=version, exclusions=exclusions))
        _maven("-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={folder}/libs")

    return _once(f"{artifact}-{version}", fetch) / "libs"


def unpacked(group: str, artifact: str, version: str, classifier: str) -> Path:
    """A folder with the content of a server's archive."""

    def fetch(folder: Path) -> None:
        archive = _archive(folder, group, artifact, version, "tar.gz", classifier)
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
        archive.unlink()

    return _once(f"{artifact}-{version}-{classifier}", fetch)


def unzipped(group: str, artifact: str, version: str, classifier: str, *wanted: str) -> Path:
    """A folder with those files of an archive whose names match a pattern of `wanted`; programs can be executed."""

    def fetch(folder: Path) -> None:
        archive = _archive(folder, group, artifact, version, "zip", classifier)
        with zipfile.ZipFile(archive) as packed:
            for file in packed.infolist():
                if not file.is_dir() and any(fnmatchcase(file.filename, pattern) for pattern in wanted):
                    Path(packed.extract(file, folder)).chmod(file.external_attr >> 16 & 0o755)
        archive.unlink()

    return _once(f"{artifact}-{version}-{classifier}", fetch)


def _archive(folder: Path, group: str, artifact: str, version: str, kind: str, classifier: str) -> Path:
    coordinates = f"{group}:{artifact}:{version}:{kind}:{classifier}"
    _maven(_COPY, f"-Dartifact={coordinates}", f"-DoutputDirectory={folder}")
    return folder / f"{artifact}-{version}-{classifier}.{kind}"


def _once(name: str, fetch: Callable[[Path], None]) -> Path:
    """A folder of the cache that `fetch` has filled, in this process or an earlier one."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "ticdc_assets_tests"
    folder = cache / name
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            folder.mkdir(exist_ok=True)
            fetch(folder)
            (folder / "complete").touch()
    return folder


def _maven(*arguments: str) -> None:
    subprocess.run(["mvn", "-q", "-B", *arguments], check=True, timeout=FETCH_TIMEOUT_S)
