"""Runs one measurement in a separate process, so that its memory does not count for the next one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ticdc_assets_tests.bench.memory import Peaks, Watch

_ANSWER: Final = "answer.json"


class ChildFailedError(Exception):
    """The child ended with a fault; the message has its last lines."""


@dataclass(frozen=True)
class Outcome:
    """The answer of a child process, and its peak sizes."""

    answer: dict[str, Any]
    peaks: Peaks


def run(module: str, scratch: Path, python: str = sys.executable, **given: Any) -> Outcome:
    """Run a module's `serve` in a child, with the arguments `given`; `scratch` is a fresh folder for it."""
    scratch.mkdir(parents=True)
    with (scratch / "log.txt").open("w") as log:
        child = subprocess.Popen(
            [python, "-m", module, str(scratch), json.dumps(given)],
            stdout=log,
            stderr=log,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(_roots())},
        )
        with Watch(child.pid) as watch:
            code = child.wait()
    if code:
        lines = (scratch / "log.txt").read_text(errors="replace").splitlines()
        raise ChildFailedError(f"{module} ended with {code}: " + " / ".join(lines[-3:]))
    return Outcome(json.loads((scratch / _ANSWER).read_text()), watch.peaks)


def serve(work: Callable[..., dict[str, Any]]) -> None:
    """What the child's module calls: do the work in the scratch folder and leave the answer there."""
    scratch = Path(sys.argv[1])
    answer = work(scratch, **json.loads(sys.argv[2]))
    (scratch / _ANSWER).write_text(json.dumps(answer))


def _roots() -> list[str]:
    here = str(Path(__file__).resolve().parents[2])
    return [here, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
