"""A MariaDB server on loopback, from the programs that are installed on the machine."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ticdc_assets_tests.services.jars import missing_tools
from ticdc_assets_tests.services.mysql_account import START_TIMEOUT_S, prepare
from ticdc_assets_tests.services.processes import DIES_WITH_THE_TESTS, free_ports


def missing() -> list[str]:
    """What this machine lacks to run a server."""
    return missing_tools("mariadbd", "mariadb-install-db", "my_print_defaults")


@contextmanager
def mariadb() -> Iterator[int]:
    """The port of a server while the body runs, with the database and the user of `mysql_account`."""
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
        prepare(process, folder)
        yield port
    finally:
        if process is not None:
            process.terminate()
            process.wait(timeout=30)
        shutil.rmtree(folder, ignore_errors=True)
