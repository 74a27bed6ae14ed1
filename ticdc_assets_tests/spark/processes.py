"""Waiting for other processes."""

from __future__ import annotations

import time
from pathlib import Path


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def waited_for(what: object, seconds: float = 60) -> bool:
    assert callable(what)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if what():
            return True
        time.sleep(0.1)
    return False
