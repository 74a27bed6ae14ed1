"""A pytest plugin that collects the tests once, and judges each mutant in a process that forks from there.

It reads what to judge from the file that `ASKED` names, and writes a line for each mutant to the one of `TOLD`.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets_tests.mutants.mutations import Mutant
from ticdc_assets_tests.mutants.patch import patch

ASKED, TOLD = "TICDC_ASSETS_MUTANTS_ASKED", "TICDC_ASSETS_MUTANTS_TOLD"
_ENDLESS = "a test that does not end"
_SLOWER, _SPARE_SECONDS, _WALL = 2, 10, 20
"""How many times the CPU time that the tests take without the mutant they may take with it, and so much more; and how
many times that they may take on the clock."""


class _FirstFailure:
    """The first test that fails."""

    test: str | None = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and self.test is None:
            self.test = report.nodeid


@dataclass(frozen=True, slots=True)
class _Judge:
    """All tests by name, and the file to write verdicts to."""

    items: dict[str, pytest.Item]
    told: Path

    def judge(self, number: int, fields: Sequence[Any], names: Sequence[str], seconds: float) -> Iterator[int]:
        """Judge one mutant by tests that take so many seconds. Yields each process to wait for."""
        mutant = Mutant(Path(fields[0]), *fields[1:])
        tests = [self.items[name] for name in names if name in self.items]
        while True:
            with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
                yield _forked(Path(folder), tests, seconds, lambda: patch(mutant))
                by = _first_failure(Path(folder))
            if by not in self.items:
                break
            with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
                yield _forked(Path(folder), [self.items[by]], seconds, lambda: None)
                if _first_failure(Path(folder)) is None:
                    break
            tests.remove(self.items[by])  # it fails without the mutant too, so it tells nothing
        with self.told.open("a") as told:
            told.write(json.dumps([number, by]) + "\n")


def _forked(folder: Path, tests: list[pytest.Item], seconds: float, prepare: Callable[[], None]) -> int:
    pid = os.fork()
    if pid:
        return pid
    told, by = folder / "told.json", None
    try:
        os.setsid()
        tempfile.tempdir = str(folder)
        limit = int(_SLOWER * seconds + _SPARE_SECONDS)
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(_WALL * limit)
        prepare()
        by = _run(tests)
    except BaseException:  # noqa: BLE001 (whatever it is, the mutant counts as one that survives)
        traceback.print_exc(file=sys.__stderr__)
    told.write_text(json.dumps(by))
    os._exit(0)


def _run(tests: list[pytest.Item]) -> str | None:
    failure = _FirstFailure()
    for test, following in zip(tests, [*tests[1:], None], strict=True):
        if test is tests[0]:
            test.config.pluginmanager.register(failure)
        test.config.hook.pytest_runtest_protocol(item=test, nextitem=following)
        if failure.test is not None:
            break
    return failure.test


def _first_failure(folder: Path) -> str | None:
    told = folder / "told.json"
    return json.loads(told.read_text()) if told.exists() else _ENDLESS


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    """Judge as many at a time as is asked; those that are not begun in time are left out."""
    asked = json.loads(Path(os.environ[ASKED]).read_text())
    until = time.monotonic() + asked["left"]
    judge = _Judge({item.nodeid: item for item in session.items}, Path(os.environ[TOLD]))
    waiting = [judge.judge(number, *of) for number, of in enumerate(asked["mutants"])][::-1]
    running: dict[int, Iterator[int]] = {}
    while True:
        while waiting and len(running) < asked["jobs"] and time.monotonic() < until:
            judging = waiting.pop()
            running[next(judging)] = judging
        if not running:
            return True
        pid, _ = os.wait()
        judging = running.pop(pid)
        if (following := next(judging, None)) is not None:
            running[following] = judging
