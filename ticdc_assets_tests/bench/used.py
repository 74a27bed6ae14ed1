"""What a task uses in its worker. Imports nothing that a worker would not have imported by itself."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from typing import Any


class Measured:
    """A task's work with what it used: seconds by the wall and of the processor, and the worker's largest size."""

    def __init__(self, work: Callable[[Any], Any]) -> None:
        self._work = work

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Measured) and other._work == self._work

    def __hash__(self) -> int:
        return hash(self._work)

    def __call__(self, payload: Any) -> tuple[Any, dict[str, float]]:
        wall, cpu = time.perf_counter(), time.process_time()
        answer = self._work(payload)
        used = {
            "wall_s": time.perf_counter() - wall,
            "cpu_s": time.process_time() - cpu,
            "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }
        return answer, used
