"""A clock that also counts processor time, of this process and of everything it started: a busy machine tells less
by the wall than by the processor."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

_PROC: Final = Path("/proc")
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_UTIME: Final = 11  # where a stat line's times begin, counted behind the process's name

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Spent:
    """Seconds by the wall, and of the processor."""

    wall_s: float
    cpu_s: float

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def timed(work: Callable[[], Answer]) -> tuple[Spent, Answer]:
    """The time of the work, and its answer."""
    cpu, begin = family_cpu_s(os.getpid()), time.perf_counter()
    answer = work()
    wall_s = time.perf_counter() - begin
    return Spent(wall_s, family_cpu_s(os.getpid()) - cpu), answer


def family(pid: int) -> list[int]:
    """A process and all that descends from it."""
    children: dict[int, list[int]] = {}
    for stat in _PROC.glob("[0-9]*/stat"):
        fields = _stat(int(stat.parent.name))
        if fields:
            children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found = [pid]
    for member in found:
        found += children.get(member, [])
    return found


def family_cpu_s(pid: int) -> float:
    """Processor time of a process and its descendants, ended ones too where they were waited for."""
    return sum(cpu_s(member) for member in family(pid))


def cpu_s(pid: int) -> float:
    """Processor time of a process and of the children that it has waited for; 0 where it has ended."""
    return sum(int(ticks) for ticks in _stat(pid)[_UTIME : _UTIME + 4]) / _TICKS


def _stat(pid: int) -> list[str]:
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has ended
        return []
