"""A real schema registry on loopback: Apicurio with Confluent's API, in memory."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

from ticdc_assets_tests.services.jars import unpacked
from ticdc_assets_tests.services.processes import DIES_WITH_THE_TESTS, free_ports

VERSION = "2.6.13.Final"
START_TIMEOUT_S = 120


class Registry:
    """A registry that forgets its schemas when it stops. A fresh one numbers schemas from 1."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        [self._port] = free_ports(1)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/apis/ccompat/v7"

    def start(self) -> None:
        home = unpacked("io.apicurio", "apicurio-registry-app", VERSION, "all")
        java = ["java", "-Xmx384m", "-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={self._port}"]
        command = [*DIES_WITH_THE_TESTS, *java, "-jar", str(home / f"apicurio-registry-app-{VERSION}-runner.jar")]
        with (self._folder / "registry.log").open("ab") as log:
            self._process = subprocess.Popen(command, cwd=self._folder, stdout=log, stderr=subprocess.STDOUT)
        self._wait()

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(timeout=30)
            self._process = None

    def register(self, schemas: Iterable[Mapping[str, Any]]) -> None:
        """Register schemas in the order of their ids, as TiCDC did. Fails where the registry gives another id."""
        for schema in sorted(schemas, key=lambda schema: schema["id"]):
            body = json.dumps({"schema": schema["schema"]}).encode()
            path = f"{self.url}/subjects/{quote(schema['subject'], safe='')}/versions"
            headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
            with urlopen(Request(path, body, headers), timeout=30) as answer:
                given = json.load(answer)["id"]
            assert given == schema["id"], f"{schema['subject']}: the stream has the id {schema['id']}, not {given}"

    def _wait(self) -> None:
        until = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < until and self._process is not None and self._process.poll() is None:
            try:
                with urlopen(f"{self.url}/subjects", timeout=5):
                    return
            except (URLError, OSError):
                time.sleep(0.3)
        raise RuntimeError(f"the registry did not start:\n{(self._folder / 'registry.log').read_text()[-3000:]}")
