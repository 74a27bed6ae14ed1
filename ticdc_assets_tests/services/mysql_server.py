"""A server that speaks MySQL's protocol, with the database and the account of the tests."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pymysql

from ticdc_assets_tests.services.processes import DIES_WITH_THE_TESTS

START_TIMEOUT_S = 60
USER, PASSWORD, DATABASE = "lake", "test p@ss/word", "lake"


@contextmanager
def served(name: str, command_in: Callable[[Path], Sequence[str]]) -> Iterator[None]:
    """A server while the body runs, with DATABASE and USER. `command_in` makes its data in a new folder, and gives the
    command that starts it with the socket `socket` in that folder."""
    folder = Path(tempfile.mkdtemp(prefix=f"ticdc-assets-{name}-"))
    process = None
    try:
        command = [*DIES_WITH_THE_TESTS, *command_in(folder)]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        _prepare(process, folder)
        yield
    finally:
        if process is not None:
            process.terminate()
            process.wait(timeout=30)
        shutil.rmtree(folder, ignore_errors=True)


def _prepare(process: subprocess.Popen[bytes], folder: Path) -> None:
    """Wait until the server answers at `socket` of the folder, and make DATABASE, with a binary collation, and USER."""
    until = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < until and process.poll() is None:
        try:
            connection = pymysql.connect(unix_socket=f"{folder}/socket", user="root", autocommit=True)
        except pymysql.OperationalError:
            time.sleep(0.1)
            continue
        with connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
            cursor.execute(f"CREATE USER {USER}@'%%' IDENTIFIED BY %s", (PASSWORD,))
            cursor.execute(f"GRANT ALL ON {DATABASE}.* TO {USER}@'%'")
        return
    raise RuntimeError(f"the server did not start:\n{(folder / 'log').read_text()[-3000:]}")
