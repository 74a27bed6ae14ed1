"""An S3 store on loopback (moto), in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pyarrow.fs as pafs

from ticdc_assets_tests.services.processes import DIES_WITH_THE_TESTS, free_ports

START_TIMEOUT_S = 60
REGION, ACCESS_KEY, SECRET_KEY = "eu-west-1", "test-access", "test-secret-value"


@dataclass(frozen=True)
class S3Store:
    """A running store, and a bucket in it."""

    endpoint: str
    bucket: str = "lake"

    @property
    def block(self) -> dict[str, object]:
        """What a config says of it: credentials by the environment."""
        return {
            "endpoint": self.endpoint,
            "region": REGION,
            "access_key": {"env": "STORE_KEY"},
            "secret_key": {"env": "STORE_SECRET"},
        }

    @property
    def environment(self) -> dict[str, str]:
        """What `block` reads."""
        return {"STORE_KEY": ACCESS_KEY, "STORE_SECRET": SECRET_KEY}

    @property
    def filesystem(self) -> pafs.S3FileSystem:
        """The store as a test reads and writes it."""
        return pafs.S3FileSystem(
            endpoint_override=self.endpoint,
            region=REGION,
            access_key=ACCESS_KEY,
            secret_key=SECRET_KEY,
            allow_bucket_creation=True,
        )

    def upload(self, folder: Path, prefix: str) -> None:
        """Copy a folder's files below a prefix of the bucket."""
        pafs.copy_files(str(folder), f"{self.bucket}/{prefix}", pafs.LocalFileSystem(), self.filesystem)

    def files(self, prefix: str) -> set[str]:
        """The objects below a prefix."""
        found = self.filesystem.get_file_info(pafs.FileSelector(f"{self.bucket}/{prefix}", recursive=True))
        return {info.path for info in found if info.type == pafs.FileType.File}


@contextmanager
def s3_store(folder: Path) -> Iterator[S3Store]:
    """A store while the body runs."""
    [port] = free_ports(1)
    command = [*DIES_WITH_THE_TESTS, sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with (folder / "moto.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            store = S3Store(f"http://127.0.0.1:{port}")
            _wait(process, store.endpoint, folder / "moto.log")
            store.filesystem.create_dir(store.bucket)
            yield store
        finally:
            process.kill()
            process.wait(timeout=30)


def _wait(process: subprocess.Popen[bytes], endpoint: str, log: Path) -> None:
    until = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < until and process.poll() is None:
        try:
            with urlopen(f"{endpoint}/moto-api/", timeout=5):
                return
        except (URLError, OSError):
            time.sleep(0.2)
    raise RuntimeError(f"moto did not start:\n{log.read_text()[-3000:]}")
