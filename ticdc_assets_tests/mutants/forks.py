"""A pytest plugin that collects the tests once, and judges each mutant in a process that forks from there.

It reads what to judge from the file that `ASKED` names, and writes a line for each mutant to the one of `TOLD`.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets_tests.mutants.mutations import Mutant
from ticdc_assets_tests.mutants.patch import Loaded

ASKED, TOLD = "TICDC_ASSETS_MUTANTS_ASKED", "TICDC_ASSETS_MUTANTS_TOLD"
_ENDLESS = "a test that does not end"
_SLOWER, _SPARE_SECONDS, _WALL = 2, 5, 20
"""How many times the CPU time of a test it may take with a mutant, and so much more; and how many times that all tests
may take on the clock."""


class _FirstFailure:
    """The first test that fails."""

    test: str | None = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and self.test is None:
            self.test = report.nodeid


@dataclass(frozen=True, slots=True)
class _Judge:
    """All tests by name, the functions to change, and the file to write verdicts to."""

    items: dict[str, pytest.Item]
    loaded: Loaded
    told: Path

    def judge(self, number: int, fields: Sequence[Any], seconds: dict[str, float]) -> Iterator[int]:
        """Judge one mutant by tests that take so many seconds. Yields each process to wait for."""
        mutant = Mutant(Path(fields[0]), *fields[1:])
        tests = {self.items[name]: of_test for name, of_test in seconds.items() if name in self.items}
        while True:
            with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
                yield _forked(Path(folder), tests, lambda: self.loaded.patch(mutant))
                by = _first_failure(Path(folder))
            if by not in self.items:
                break
            alone = self.items[by]
            with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
                yield _forked(Path(folder), {alone: tests[alone]}, lambda: None)
                if _first_failure(Path(folder)) is None:
                    break
            del tests[alone]  # it fails without the mutant too, so it shows nothing
        with self.told.open("a") as told:
            told.write(json.dumps([number, by]) + "\n")


def _forked(folder: Path, tests: dict[pytest.Item, float], prepare: Callable[[], None]) -> int:
    pid = os.fork()
    if pid:
        return pid
    told, by = folder / "told.json", None
    try:
        os.setsid()
        tempfile.tempdir = str(folder)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.alarm(int(_WALL * _limit(sum(tests.values()))))
        prepare()
        by = _run(tests)
    except BaseException:  # noqa: BLE001 (whatever it is, the mutant counts as one that survives)
        traceback.print_exc(file=sys.__stderr__)
    told.write_text(json.dumps(by))
    os._exit(0)


def _run(tests: dict[pytest.Item, float]) -> str | None:
    """The first test that fails. A test that takes too long ends the process."""
    failure = _FirstFailure()
    for test, following in zip_longest(tests, list(tests)[1:]):
        if not test.config.pluginmanager.is_registered(failure):
            test.config.pluginmanager.register(failure)
        signal.setitimer(signal.ITIMER_PROF, _limit(tests[test]))
        test.config.hook.pytest_runtest_protocol(item=test, nextitem=following)
        if failure.test is not None:
            break
    signal.setitimer(signal.ITIMER_PROF, 0)
    return failure.test


def _limit(seconds: float) -> float:
    return _SLOWER * seconds + _SPARE_SECONDS


def _first_failure(folder: Path) -> str | None:
    told = folder / "told.json"
    return json.loads(told.read_text()) if told.exists() else _ENDLESS


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    """Judge as many at a time as is asked; those that are not begun in time are left out."""
    asked = json.loads(Path(os.environ[ASKED]).read_text())
    until = time.monotonic() + asked["left"]
    loaded = Loaded.of(Path(fields[0]) for fields, _ in asked["mutants"])
    judge = _Judge({item.nodeid: item for item in session.items}, loaded, Path(os.environ[TOLD]))
    waiting = [judge.judge(number, *of) for number, of in enumerate(asked["mutants"])][::-1]
    running: dict[int, Iterator[int]] = {}
    gc.freeze()  # so that the processes share the memory of what is there
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
