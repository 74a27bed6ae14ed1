"""Jars of servers, fetched once by Maven into the user's cache."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

_POM = """<project><modelVersion>4.0.0</modelVersion><groupId>t</groupId><artifactId>t</artifactId><version>1</version>
<dependencies><dependency>
<groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>
</dependency></dependencies></project>
"""
FETCH_TIMEOUT_S = 600


def missing_tools(*names: str) -> list[str]:
    """Which of the programs are not on this machine."""
    return [name for name in names if shutil.which(name) is None]


def fetched(group: str, artifact: str, version: str) -> Path:
    """A folder with the jar and all that it needs."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "ticdc_assets_tests"
    folder = cache / f"{artifact}-{version}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{artifact}-{version}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            folder.mkdir(exist_ok=True)
            pom = folder / "pom.xml"
            pom.write_text(_POM.format(group=group, artifact=artifact, version=version))
            subprocess.run(
                ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={folder}/libs"],
                check=True,
                timeout=FETCH_TIMEOUT_S,
            )
            (folder / "complete").touch()
    return folder / "libs"
