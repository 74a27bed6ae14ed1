"""A PostgreSQL server on loopback, from the programs that are installed on the machine."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ticdc_assets_tests.services.jars import missing_tools
from ticdc_assets_tests.services.processes import DIES_WITH_THE_TESTS, free_ports

START_TIMEOUT_S = 60
USER, PASSWORD = "lake", "test p@ss/word"
_ACCOUNT = "nobody"  # PostgreSQL refuses to run as root


def missing() -> list[str]:
    """What this machine lacks to run a server."""
    return missing_tools("initdb", "postgres", *(["setpriv"] if os.getuid() == 0 else []))


@contextmanager
def postgresql() -> Iterator[int]:
    """The port of a server while the body runs; its database is `postgres`, its user USER."""
    [port] = free_ports(1)
    folder = Path(tempfile.mkdtemp(prefix="ticdc-assets-postgresql-"))
    process = None
    try:
        (folder / "password").write_text(PASSWORD)
        if os.getuid() == 0:
            shutil.chown(folder, _ACCOUNT)
            shutil.chown(folder / "password", _ACCOUNT)
        data = str(folder / "data")
        made = ["initdb", "-D", data, "-U", USER, "-A", "scram-sha-256", "--pwfile", str(folder / "password"), "-N"]
        subprocess.run([*_account(), *made], check=True, timeout=START_TIMEOUT_S, stdout=subprocess.DEVNULL, cwd="/")
        settings = [f"port={port}", "listen_addresses=127.0.0.1", f"unix_socket_directories={folder}", "fsync=off"]
        options = [word for setting in settings for word in ("-c", setting)]
        with (folder / "log").open("wb") as log:
            command = [*_account(), *DIES_WITH_THE_TESTS, "postgres", "-D", data, *options]
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd="/")
        _wait(process, folder / "log")
        yield port
    finally:
        if process is not None:
            process.send_signal(signal.SIGINT)  # without waiting for its clients to leave
            process.wait(timeout=30)
        shutil.rmtree(folder, ignore_errors=True)


def _account() -> list[str]:
    if os.getuid() != 0:
        return []
    account = pwd.getpwnam(_ACCOUNT)
    return ["setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"]


def _wait(process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < until and process.poll() is None:
        if b"ready to accept connections" in log.read_bytes():
            return
        time.sleep(0.1)
    raise RuntimeError(f"PostgreSQL did not start:\n{log.read_text()[-3000:]}")
