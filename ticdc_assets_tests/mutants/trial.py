"""One mutant at its tests: in a copy of the project, so that nobody who works on it sees the mutant."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ticdc_assets_tests.mutants.mutations import Mutant

WRITTEN_TO = "TICDC_ASSETS_LINE_TESTS"
ROOT = Path(__file__).parents[2]
CHOSEN = "not spark and not matrix"
FEW = {"TICDC_ASSETS_FIXTURES": "none", "TICDC_ASSETS_HOSTILE_INPUTS": "20000", "TICDC_ASSETS_DELIVERIES": "240"}
"""The tests with many examples take fewer: a mutant that only one example in a thousand tells is not looked for."""
SECONDS_MAX = 90
"""What the tests of a mutant may take, by what they took when nothing else ran; the quickest are chosen."""
_FIRST_SECONDS_MAX, _FIRST_FILES = 6, 3
_READS_BOUNDS = "ticdc_assets_tests/documentation/test_threat_model.py::"
"""Tests that compare constants of many modules with the page that names them, and run no line of these modules."""


@dataclass(frozen=True)
class LineTests:
    """Which tests run which lines of which modules."""

    found: dict[str, dict[str, object]]

    def of(self, mutant: Mutant, modules: Iterable[str]) -> list[str]:
        """The tests of a mutant, quickest first. Where no test runs its line, because it is run as machine code or
        when its module is imported, those that run anything of `modules` or compare bounds."""
        lines = set(range(mutant.line, mutant.end_line + 1))
        module = str(mutant.path.relative_to(ROOT / "ticdc_assets"))
        tests = [name for name in self.found if lines & set(self._lines(name, module))]
        if not tests:
            tests = [name for name in self.found if self._may_tell(name, modules)]
        return self._within(sorted(tests, key=self._seconds))

    def _may_tell(self, test: str, modules: Iterable[str]) -> bool:
        return test.startswith(_READS_BOUNDS) or any(self._lines(test, module) for module in modules)

    def _lines(self, test: str, module: str) -> list[int]:
        lines: dict[str, list[int]] = self.found[test]["lines"]  # type: ignore[assignment]
        return lines.get(module, [])

    def _seconds(self, test: str) -> float:
        return float(self.found[test]["seconds"])  # type: ignore[arg-type]

    def in_turns(self, tests: list[str]) -> list[list[str]]:
        """The tests in two turns: first quick ones of the files that have most of them, which kill most mutants and
        spare the others' imports."""
        sizes = Counter(name.partition("::")[0] for name in tests)
        files = {name for name, _ in sizes.most_common(_FIRST_FILES)}
        left, first = float(_FIRST_SECONDS_MAX), []
        for test in tests:
            left -= self._seconds(test)
            if left > 0 and test.partition("::")[0] in files:
                first.append(test)
        known = set(first)
        return [turn for turn in (first, [test for test in tests if test not in known]) if turn]

    def _within(self, tests: list[str]) -> list[str]:
        """As many of the quickest tests as take no more than the time that a mutant gets."""
        left, some = float(SECONDS_MAX), []
        for test in tests:
            left -= self._seconds(test)
            if left < 0:
                break
            some.append(test)
        return some


def line_tests(kept_in: Path) -> LineTests:
    """Read from a file, or made by a run of the fast tests and kept there."""
    if not kept_in.exists():
        if sys.version_info < (3, 12):
            sys.exit("Python 3.12 or newer tells which tests run a line: make the environment with one.")
        command = [sys.executable, "-m", "pytest", "-q", "-m", CHOSEN, "-p", "ticdc_assets_tests.mutants.line_tests"]
        known = {**os.environ, **FEW, WRITTEN_TO: str(kept_in), "CI": "true", "PYTHONPATH": str(ROOT)}
        if subprocess.run(command, cwd=ROOT, env=known, check=False).returncode != 0:
            sys.exit("The tests fail without a mutant: mend them first.")
    return LineTests(json.loads(kept_in.read_text()))


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
        run = subprocess.run(command, cwd=project, env=known, capture_output=True, timeout=4 * SECONDS_MAX, check=False)
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
