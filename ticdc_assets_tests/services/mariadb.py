"""A MariaDB server on loopback, from the programs that are installed on the machine."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pymysql

from ticdc_assets_tests.services.jars import missing_tools
from ticdc_assets_tests.services.processes import DIES_WITH_THE_TESTS, free_ports

START_TIMEOUT_S = 60
USER, PASSWORD, DATABASE = "lake", "test p@ss/word", "lake"


def missing() -> list[str]:
    """What this machine lacks to run a server."""
    return missing_tools("mariadbd", "mariadb-install-db")


@contextmanager
def mariadb() -> Iterator[int]:
    """The port of a server while the body runs; its database is DATABASE, with a binary collation, its user USER."""
    [port] = free_ports(1)
    folder = Path(tempfile.mkdtemp(prefix="ticdc-assets-mariadb-"))
    process = None
    try:
        account = pwd.getpwuid(os.getuid()).pw_name
        base = Path(shutil.which("mariadb-install-db") or "").resolve().parents[1]
        data = [f"--datadir={folder}/data", f"--user={account}"]
        made = [f"--basedir={base}", "--auth-root-authentication-method=normal", "--skip-test-db", *data]
        subprocess.run(
            ["mariadb-install-db", "--no-defaults", *made], check=True, timeout=START_TIMEOUT_S, capture_output=True
        )
        settings = [f"--basedir={base}", f"--port={port}", "--bind-address=127.0.0.1", f"--socket={folder}/socket"]
        quick = ["--innodb-flush-log-at-trx-commit=0", "--skip-name-resolve"]
        with (folder / "log").open("wb") as log:
            command = [*DIES_WITH_THE_TESTS, "mariadbd", "--no-defaults", *data, *settings, *quick]
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        _prepare(process, folder)
        yield port
    finally:
        if process is not None:
            process.terminate()
            process.wait(timeout=30)
        shutil.rmtree(folder, ignore_errors=True)


def _prepare(process: subprocess.Popen[bytes], folder: Path) -> None:
    """Wait until the server answers, and make the database and its user."""
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
    raise RuntimeError(f"MariaDB did not start:\n{(folder / 'log').read_text()[-3000:]}")
