"""A MariaDB server on loopback, from the programs that are installed on the machine."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ticdc_assets_tests.services.jars import missing_tools
from ticdc_assets_tests.services.mysql_server import START_TIMEOUT_S, served
from ticdc_assets_tests.services.processes import free_ports


def missing() -> list[str]:
    """What this machine lacks to run a server."""
    return missing_tools("mariadbd", "mariadb-install-db", "my_print_defaults")


@contextmanager
def mariadb() -> Iterator[int]:
    """The port of a server while the body runs, with the database and the user of `mysql_server`."""
    [port] = free_ports(1)
    account = pwd.getpwuid(os.getuid()).pw_name
    base = Path(shutil.which("mariadb-install-db") or "").resolve().parents[1]

    def command_in(folder: Path) -> list[str]:
        data = [f"--datadir={folder}/data", f"--user={account}"]
        made = [f"--basedir={base}", "--auth-root-authentication-method=normal", "--skip-test-db", *data]
        subprocess.run(
            ["mariadb-install-db", "--no-defaults", *made], check=True, timeout=START_TIMEOUT_S, capture_output=True
        )
        settings = [f"--basedir={base}", f"--port={port}", "--bind-address=127.0.0.1", f"--socket={folder}/socket"]
        quick = ["--innodb-flush-log-at-trx-commit=0", "--skip-name-resolve"]
        return ["mariadbd", "--no-defaults", *data, *settings, *quick]

    with served("mariadb", command_in):
        yield port
