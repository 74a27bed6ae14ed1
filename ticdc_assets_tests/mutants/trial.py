"""One mutant at its tests: in a copy of the project, so that nobody who works on it sees the mutant."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path

from ticdc_assets_tests.mutants.forks import ASKED, TOLD
from ticdc_assets_tests.mutants.mutations import Mutant

WRITTEN_TO = "TICDC_ASSETS_LINE_TESTS"
ROOT = Path(__file__).parents[2]
CHOSEN = "not spark and not matrix"
FEW = {"TICDC_ASSETS_FIXTURES": "none", "TICDC_ASSETS_HOSTILE_INPUTS": "20000", "TICDC_ASSETS_DELIVERIES": "240"}
"""The tests with many examples take fewer: a mutant that only one example in a thousand tells is not looked for."""
SECONDS_MAX = 360
"""What the tests of a mutant in a process of its own may take; beyond, they count as tests that do not end."""
_FIRST_TESTS, _FIRST_FILES = 300, 3
_READS_BOUNDS = "ticdc_assets_tests/documentation/test_threat_model.py::"
"""Tests that compare constants of many modules with the page that names them, and run no line of these modules."""


@dataclass(frozen=True)
class Trial:
    """A mutant, and the tests that may notice it with the CPU time that each takes without it."""

    mutant: Mutant
    tests: dict[str, float]


@dataclass(frozen=True)
class LineTests:
    """Which tests run which lines of which modules, and their CPU time."""

    found: dict[str, dict[str, object]]

    def of(self, mutant: Mutant, modules: Iterable[str], seconds: float) -> Trial:
        """A mutant with as many of its tests as take no more than `seconds`, quickest first.

        Where no test runs its line, because it is run as machine code or when its module is imported, its tests are
        those that run anything of `modules` or compare bounds.
        """
        lines = set(range(mutant.line, mutant.end_line + 1))
        module = str(mutant.path.relative_to(ROOT / "ticdc_assets"))
        tests = [name for name in self.found if lines & set(self._lines(name, module))] if mutant.is_inside else []
        if not tests:
            tests = [name for name in self.found if self._may_tell(name, modules)]
        some = self._within(sorted(tests, key=self._seconds), seconds)
        return Trial(mutant, {test: self._seconds(test) for test in some})

    def _may_tell(self, test: str, modules: Iterable[str]) -> bool:
        return test.startswith(_READS_BOUNDS) or any(self._lines(test, module) for module in modules)

    def _lines(self, test: str, module: str) -> list[int]:
        lines: dict[str, list[int]] = self.found[test]["lines"]  # type: ignore[assignment]
        return lines.get(module, [])

    def _seconds(self, test: str) -> float:
        return float(self.found[test]["seconds"])  # type: ignore[arg-type]

    def _within(self, tests: list[str], seconds: float) -> list[str]:
        some: list[str] = []
        for test in tests:
            seconds -= self._seconds(test)
            if seconds < 0 and some:
                break
            some.append(test)
        return some


def in_turns(tests: list[str]) -> list[list[str]]:
    """The tests in two turns: first the quickest of the files that have most of them, which kill most mutants and
    spare the others' imports."""
    sizes = Counter(name.partition("::")[0] for name in tests)
    files = {name for name, _ in sizes.most_common(_FIRST_FILES)}
    first = [test for test in tests if test.partition("::")[0] in files][:_FIRST_TESTS]
    known = set(first)
    return [turn for turn in (first, [test for test in tests if test not in known]) if turn]


def line_tests(kept_in: Path, tests: Sequence[str] = ()) -> LineTests:
    """Read from a file, or made by a run of the fast tests, all or these, and kept there."""
    if not kept_in.exists():
        if sys.version_info < (3, 12):
            sys.exit("Python 3.12 or newer tells which tests run a line: make the environment with one.")
        chosen = ["-m", CHOSEN, "-p", "ticdc_assets_tests.mutants.line_tests"]
        command = [sys.executable, "-m", "pytest", "-q", *chosen, *tests]
        known = {**os.environ, **FEW, WRITTEN_TO: str(kept_in), "CI": "true", "PYTHONPATH": str(ROOT)}
        if subprocess.run(command, cwd=ROOT, env=known, check=False).returncode != 0:
            sys.exit("The tests fail without a mutant: mend them first.")
    return LineTests(json.loads(kept_in.read_text()))


def in_forks(trials: list[Trial], jobs: int, until: float) -> Iterator[tuple[Trial, str | None]]:
    """The test that notices each mutant, None where all pass: in processes that fork once all tests are collected."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        listed, asked, told = folder / "tests.txt", folder / "asked.json", folder / "told.jsonl"
        listed.write_text("\n".join(sorted({test.partition("::")[0] for trial in trials for test in trial.tests})))
        mutants = [[_fields(trial.mutant), trial.tests] for trial in trials]
        left = until - time.monotonic()
        asked.write_text(json.dumps({"jobs": jobs, "left": left, "mutants": mutants}))
        told.touch()
        known = {**os.environ, **FEW, "CI": "true", "PYTHONPATH": str(ROOT), ASKED: str(asked), TOLD: str(told)}
        plugins = ["-p", "ticdc_assets_tests.mutants.forks", "-p", "no:cacheprovider", "--capture=sys"]
        command = [sys.executable, "-m", "pytest", "-q", "-m", CHOSEN, *plugins, f"@{listed}"]
        with subprocess.Popen(command, cwd=ROOT, env=known, stdout=subprocess.DEVNULL) as run, told.open() as verdicts:
            has_ended = False
            while not has_ended:
                has_ended = run.poll() is not None
                for line in verdicts:
                    number, by = json.loads(line)
                    yield trials[number], by
                time.sleep(0.2)


def _fields(mutant: Mutant) -> list[object]:
    return [str(value) if isinstance(value, Path) else value for value in astuple(mutant)]


def related(mutant: Mutant) -> list[str]:
    """The module of a mutant; where its code is compiled, the modules that import it too."""
    package = ROOT / "ticdc_assets"
    modules = [str(mutant.path.relative_to(package))]
    if not mutant.compiled:
        return modules
    for module in modules:
        word = Path(module).stem
        for path in sorted((package / "protocols").rglob("*.py")):
            text, name = path.read_text(), str(path.relative_to(package))
            if name not in modules and (f"{word} import" in text or f"import {word}\n" in text):
                modules.append(name)
    return modules


@contextmanager
def copied() -> Iterator[Path]:
    """A copy of the project."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        folder = Path(name) / "project"
        hidden = shutil.ignore_patterns(".git", ".venv", "lake", "demo", ".hypothesis", ".mypy_cache", "*.egg-info")
        shutil.copytree(ROOT, folder, ignore=hidden, symlinks=True)
        yield folder


def killer(mutant: Mutant, tests: list[str], project: Path) -> str | None:
    """The test that fails, or does not end, with the mutant in a copy of the project; None where all pass."""
    place = project / mutant.path.relative_to(ROOT)
    sound = place.read_bytes()
    listed = project.parent / "tests.txt"
    listed.write_text("\n".join(tests))
    known = {**os.environ, **FEW, "CI": "true", "PYTHONPATH": str(project), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", f"@{listed}"]
    place.write_text(mutant.source())
    try:
        run = subprocess.run(command, cwd=project, env=known, capture_output=True, timeout=SECONDS_MAX, check=False)
    except subprocess.TimeoutExpired:
        return "a test that does not end"
    finally:
        place.write_bytes(sound)
    if run.returncode in (4, 5):
        raise RuntimeError(run.stdout.decode()[-2000:] + run.stderr.decode()[-2000:])
    if run.returncode == 0:
        return None
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", run.stdout.decode(), re.MULTILINE)
    return failed[1] if failed else f"exit code {run.returncode}"
