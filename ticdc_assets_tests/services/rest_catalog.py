"""An Iceberg REST catalog on loopback: Iceberg's own handlers over a catalog in SQLite (`RestCatalogServer.java`)."""

from __future__ import annotations

import atexit
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pyspark

from ticdc_assets.spark.packages import ICEBERG_PACKAGE, ICEBERG_VERSION
from ticdc_assets_tests.services.jars import fetched
from ticdc_assets_tests.services.processes import DIES_WITH_THE_TESTS, free_ports

START_TIMEOUT_S = 120
TOKEN = "test-token-value"
_SOURCE = Path(__file__).parent / "RestCatalogServer.java"


@dataclass(frozen=True)
class Login:
    """What gets a token, and how long the token is valid."""

    credential: str
    scope: str
    seconds: int


@dataclass(frozen=True)
class RestCatalog:
    """A running catalog. `log` has a line for each request: method, path, status."""

    uri: str
    log: Path

    def requests(self, method: str, status: int) -> int:
        """How many requests had this answer."""
        lines = (line.split() for line in self.log.read_text().splitlines())
        return sum(1 for words in lines if words[:1] == [method] and words[-1:] == [str(status)])


@contextmanager
def rest_catalog(
    folder: Path,
    behind: Mapping[str, str],
    client_properties: Mapping[str, str] | None = None,
    warehouse: str = "",
    unknown_every: int = 0,
    login: Login | None = None,
) -> Iterator[RestCatalog]:
    """A catalog while the body runs.

    Args:
        folder: where its database and its log are.
        behind: properties of the catalog that it serves, such as `warehouse` and those of a store.
        client_properties: properties that override what clients are configured with.
        warehouse: the name that clients have to ask for; empty for any.
        unknown_every: every how many commits one lands and is answered with 500; 0 for none.
        login: what clients have to get their tokens with, at `/v1/oauth/tokens`; None for the token TOKEN.
    """
    [port] = free_ports(1)
    classes, path = _compiled(), _class_path()
    database = {"uri": f"jdbc:sqlite:{folder}/rest.db?busy_timeout=30000", **behind}
    settings = [str(port), TOKEN, warehouse, str(unknown_every)]
    settings += [f"{key}={value}" for key, value in database.items()]
    settings += [f"~{key}={value}" for key, value in (client_properties or {}).items()]
    settings += [f"@{key}={value}" for key, value in asdict(login).items()] if login else []
    (folder / "rest.settings").write_text("\n".join(settings))
    java = ["java", "-Xmx384m", "-cp", f"{classes}:{path}", "org.apache.iceberg.rest.RestCatalogServer"]
    java.append(str(folder / "rest.settings"))
    log, errors = folder / "rest.log", folder / "rest.errors"
    with log.open("wb") as out, errors.open("wb") as err:
        process = subprocess.Popen([*DIES_WITH_THE_TESTS, *java], stdout=out, stderr=err)
        try:
            _wait(process, f"http://127.0.0.1:{port}/v1/config", errors)
            yield RestCatalog(f"http://127.0.0.1:{port}", log)
        finally:
            process.kill()
            process.wait(timeout=30)


def _class_path() -> str:
    group, artifact, version = ICEBERG_PACKAGE.split(":")
    needed = (
        (group, artifact, version),
        (group, "iceberg-aws-bundle", ICEBERG_VERSION),
        ("org.xerial", "sqlite-jdbc", "3.54.1.0"),
    )
    jars = [f"{fetched(*package)}/*" for package in needed]
    return ":".join([*jars, f"{Path(pyspark.__file__).parent}/jars/*"])


@cache
def _compiled() -> Path:
    """The classes of the server, compiled once for all tests of this process."""
    classes = Path(tempfile.mkdtemp(prefix="rest-catalog-"))
    atexit.register(shutil.rmtree, classes, ignore_errors=True)
    command = ["javac", "-d", str(classes), "-cp", _class_path(), str(_SOURCE)]
    subprocess.run(command, check=True, timeout=START_TIMEOUT_S)
    return classes


def _wait(process: subprocess.Popen[bytes], address: str, errors: Path) -> None:
    until = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < until and process.poll() is None:
        try:
            urlopen(address, timeout=5)
        except HTTPError:
            return  # it answers, though not without a token
        except (URLError, OSError):
            time.sleep(0.2)
    raise RuntimeError(f"the REST catalog did not start:\n{errors.read_text()[-3000:]}")
