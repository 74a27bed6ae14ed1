"""Makes a sample of mutants of the modules that decide what is right, and tells which ones no test notices.

`python -m ticdc_assets_tests.mutants --count 120 --seed 0`. The modules are those of `schema/`, `changes/` and
`protocols/`, and those of `pipeline/` that plan: they need no Spark, so the fast tests can judge them.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from ticdc_assets_tests.mutants.mutations import Mutant, mutants_of
from ticdc_assets_tests.mutants.trial import ROOT, Trial, copied, in_forks, in_turns, killer, line_tests, related

PLANNING = (
    "commit_range late_tables record source_state user_schemas changelog/dedup history/refusals "
    "landing/plan load/progress mirror/pending mirror/segments rows/bad_rows rows/fit rows/place "
    "storage/pending storage/plan storage/reader storage/record stream/make_task stream/decode/parts "
    "stream/decode/row_schemas stream/advance stream/blocked_topics stream/offsets/cursor "
    "stream/offsets/ledger stream/offsets/ranges stream/pending stream/scan/batches "
    "stream/scan/inferred_schemas stream/scan/result stream/scan/state"
)
FOLDERS = ("schema", "changes", "protocols")


def modules(within: str = "") -> list[Path]:
    """The modules that are mutated, those whose path begins with `within`."""
    package = ROOT / "ticdc_assets"
    pure = [path for folder in FOLDERS for path in sorted((package / folder).rglob("*.py"))]
    every = pure + [package / "pipeline" / f"{name}.py" for name in PLANNING.split()]
    return [path for path in every if str(path.relative_to(package)).startswith(within)]


def sample(count: int, seed: int, within: str = "", interpreted: bool = False) -> list[Mutant]:
    """Mutants of these modules: each line that can be changed has the same chance."""
    every = [mutant for path in modules(within) for mutant in mutants_of(path, interpreted)]
    return random.Random(seed).sample(every, min(count, len(every)))


def main() -> int:
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=120)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--within", default="", help="only modules whose path begins so, as in schema/ or pipeline/")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=60, help="mutants that are not begun by then are left out")
    parser.add_argument("--seconds", type=float, default=30, help="CPU time of the tests of a mutant, quickest first")
    parser.add_argument("--lines", type=Path, help="a file that keeps which tests run which lines")
    parser.add_argument("--tests", nargs="*", default=[], help="only tests of these files and folders")
    interpreted = "run compiled code as Python: it is slower, and its mutants need no process of their own"
    parser.add_argument("--interpreted", action="store_true", help=interpreted)
    asked = parser.parse_args()
    if asked.interpreted:
        os.environ["NUMBA_DISABLE_JIT"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        lines = line_tests(asked.lines or Path(folder) / "lines.json", asked.tests)
    until = time.monotonic() + 60 * asked.minutes
    mutants = sample(asked.count, asked.seed, asked.within, asked.interpreted)
    trials = [lines.of(mutant, related(mutant), asked.seconds) for mutant in mutants]
    killed, judged = 0, 0
    for trial, by in verdicts(trials, asked.jobs, until):
        print(_described(trial.mutant, by, len(trial.tests)), flush=True)
        killed, judged = killed + (by is not None), judged + 1
    print(f"{killed} of {judged} mutants killed, seed {asked.seed}.")
    return 0 if killed == judged else 1


def verdicts(trials: list[Trial], jobs: int, until: float) -> Iterator[tuple[Trial, str | None]]:
    """Each mutant that is judged in time, with the test that notices it."""
    inside = [trial for trial in trials if trial.mutant.is_inside and trial.tests]
    yield from in_forks(inside, jobs, until)
    yield from ((trial, None) for trial in trials if trial.mutant.is_inside and not trial.tests)
    with copied() as project:
        for trial in trials:
            if not trial.mutant.is_inside and time.monotonic() < until:
                turns = in_turns(list(trial.tests))
                yield trial, next(filter(None, (killer(trial.mutant, turn, project) for turn in turns)), None)


def _described(mutant: Mutant, by: str | None, tests: int) -> str:
    place = f"{mutant.path.relative_to(ROOT)}:{mutant.line}"
    before, after = (" ".join(text.split()) for text in (mutant.before, mutant.after))
    change = f"{place}: {before} -> {after}"
    return f"killed   {change} by {by}" if by else f"SURVIVED {change} ({tests} tests)"


if __name__ == "__main__":
    sys.exit(main())
