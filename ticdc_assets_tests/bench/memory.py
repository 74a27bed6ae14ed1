"""The peak size of a process and of each process below it: the driver, the JVM, each Python worker."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ticdc_assets_tests.bench.clock import family

SECONDS_BETWEEN: Final = 0.1
_PROC: Final = Path("/proc")


@dataclass
class Peaks:
    """Peak resident sizes in MB. `at_once_mb` is the largest sum of all processes at one moment."""

    driver_mb: float = 0.0
    jvm_mb: float = 0.0
    workers_mb: dict[int, float] = field(default_factory=dict)
    workers_at_once_mb: float = 0.0
    at_once_mb: float = 0.0

    @property
    def worker_max_mb(self) -> float:
        return max(self.workers_mb.values(), default=0.0)

    def line(self) -> str:
        return (
            f"driver {self.driver_mb:,.0f} MB, JVM {self.jvm_mb:,.0f} MB, largest worker {self.worker_max_mb:,.0f} MB, "
            f"workers at once {self.workers_at_once_mb:,.0f} MB, all at once {self.at_once_mb:,.0f} MB"
        )


class Watch:
    """Looks at a process and its descendants until it is left."""

    def __init__(self, pid: int) -> None:
        self.peaks = Peaks()
        self._pid = pid
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look_on, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look_on(self) -> None:
        while not self._over.wait(SECONDS_BETWEEN):
            self._look()

    def _look(self) -> None:
        peaks, workers_mb, all_mb = self.peaks, 0.0, 0.0
        for pid in family(self._pid):
            name, now_mb = _name(pid), _resident_mb(pid)
            all_mb += now_mb
            if pid == self._pid:
                peaks.driver_mb = max(peaks.driver_mb, now_mb)
            elif name == "java":
                peaks.jvm_mb = max(peaks.jvm_mb, now_mb)
            elif name.startswith("python"):
                peaks.workers_mb[pid] = max(peaks.workers_mb.get(pid, 0.0), now_mb)
                workers_mb += now_mb
        peaks.workers_at_once_mb = max(peaks.workers_at_once_mb, workers_mb)
        peaks.at_once_mb = max(peaks.at_once_mb, all_mb)


def _name(pid: int) -> str:
    try:
        return (_PROC / str(pid) / "comm").read_text().strip()
    except OSError:
        return ""


def _resident_mb(pid: int) -> float:
    try:
        status = (_PROC / str(pid) / "status").read_text()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmRSS:")), 0.0)
