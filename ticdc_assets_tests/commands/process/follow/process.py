"""Starts and stops a real process of `ticdc-assets run --follow` for tests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any

ROOT = Path(__file__).parents[3]
SECONDS_MAX = 120


class Follower:
    """The process, and the lines that it has printed."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self._lines: Queue[str] = Queue()
        self._notes: Queue[str] = Queue()
        for stream, queue in ((process.stdout, self._lines), (process.stderr, self._notes)):
            Thread(target=_read, args=(stream, queue), daemon=True).start()

    def until(self, wanted: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
        """The lines up to the first one that is wanted."""
        found = []
        while True:
            found.append(json.loads(self._lines.get(timeout=SECONDS_MAX)))
            if wanted(found[-1]):
                return found

    def printed(self) -> list[dict[str, Any]]:
        """The lines that are there now."""
        return [json.loads(self._lines.get_nowait()) for _ in range(self._lines.qsize())]

    def until_note(self, word: str) -> str:
        """The next line of stderr that has the word."""
        while word not in (note := self._notes.get(timeout=SECONDS_MAX)):
            pass
        return note

    @property
    def children(self) -> list[int]:
        """The processes that this one has started, and those that they started."""
        found, parents = [], {self.process.pid}
        for path in sorted(Path("/proc").glob("[0-9]*/stat"), key=lambda path: int(path.parent.name)):
            try:
                parent = int(path.read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if parent in parents:
                parents.add(int(path.parent.name))
                found.append(int(path.parent.name))
        return found

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal; the exit code."""
        self.process.send_signal(number)
        return self.process.wait(SECONDS_MAX)


def _read(stream: Any, lines: Queue[str]) -> None:
    for line in stream:
        lines.put(line)


@contextmanager
def follower(config: Path, *options: str, **variables: str) -> Iterator[Follower]:
    """A process that follows the changefeeds of a config."""
    command = [sys.executable, "-m", "ticdc_assets.cli", "run", "--follow", "--json", "--config", str(config), *options]
    environ = {name: text for name, text in os.environ.items() if name != "DAGSTER_HOME"}
    environ |= {"PYTHONPATH": str(ROOT), **variables}
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield Follower(process)
        finally:
            process.kill()


def is_running(pid: int) -> bool:
    """Whether a process exists that has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def scraped(url: str) -> str:
    request = urllib.request.Request(url, headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.read().decode()
