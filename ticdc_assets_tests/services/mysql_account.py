"""The database and the account of tests in a server that speaks MySQL's protocol."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pymysql

START_TIMEOUT_S = 60
USER, PASSWORD, DATABASE = "lake", "test p@ss/word", "lake"


def prepare(process: subprocess.Popen[bytes], folder: Path) -> None:
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
