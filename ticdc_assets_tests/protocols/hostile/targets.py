"""Fires mutants at a target and holds it to what hostile bytes may do: a documented error or a result, soon.

A target is a function of one mutant. Whatever it lets out fails the test, with the input in base64; so does an input
that takes more than a second of processor time. What Numba takes to compile a function at its first call is left out.
"""

from __future__ import annotations

import os
import signal
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from ticdc_assets_tests.protocols.hostile.mutations import Mutant, Mutator
from ticdc_assets_tests.protocols.hostile.processor_time import Stopwatch, stopwatch

INPUTS = int(os.environ.get("TICDC_ASSETS_HOSTILE_INPUTS", "20000"))
"""How many mutants each protocol gets."""
NUMBER = int(os.environ.get("TICDC_ASSETS_HOSTILE_SEED", "0"))
"""Which ones: another number gives other mutants."""
SECONDS_MAX = 1.0
GROWTH_BYTES_MAX = 64 << 20
_PAGE_BYTES = os.sysconf("SC_PAGESIZE")


@dataclass
class Outcome:
    """Counts of mutants: all, and those that decode; the longest time of one, and the memory kept."""

    inputs: int = 0
    taken: int = 0
    slowest_seconds: float = 0.0
    grown_bytes: int = 0


class Hang(BaseException):
    """Raised in the middle of an input that does not end."""


def bombard(target: Callable[[Mutant], int], mutator: Mutator, count: int = INPUTS) -> Outcome:
    """Run the target on every mutant; it returns whether the mutant decodes, or how many of a batch."""
    outcome, before = Outcome(), resident_bytes()
    mutant = None
    with stopwatch() as watch, _alarm(outcome, watch):
        for mutant in mutator.mutants(count):
            began = watch.seconds()
            try:
                outcome.taken += target(mutant)
            except (Exception, Hang) as error:
                raise AssertionError(
                    f"{_described(mutator, outcome, mutant)}: {type(error).__name__}: {error}"
                ) from error
            outcome.inputs += 1
            outcome.slowest_seconds = max(outcome.slowest_seconds, watch.seconds() - began)
    outcome.grown_bytes = resident_bytes() - before
    print(outcome)
    assert outcome.slowest_seconds < SECONDS_MAX
    assert outcome.grown_bytes < GROWTH_BYTES_MAX
    return outcome


def _described(mutator: Mutator, outcome: Outcome, mutant: Mutant) -> str:
    key, value = (None if part is None else b64encode(part).decode() for part in (mutant.key, mutant.value))
    return f"mutant {outcome.inputs} of number {mutator.number}: key {key!r}, value {value!r}"


@contextmanager
def _alarm(outcome: Outcome, watch: Stopwatch) -> Iterator[None]:
    """Interrupts the input that is still the same after two seconds of processor time."""
    last = -1

    def ring(_signal: int, _frame: FrameType | None) -> None:
        nonlocal last
        if outcome.inputs == last and not watch.is_compiling:
            raise Hang("it does not end")
        last = -1 if watch.is_compiling else outcome.inputs

    old = signal.signal(signal.SIGVTALRM, ring)
    signal.setitimer(signal.ITIMER_VIRTUAL, 2, 2)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, old)


def resident_bytes() -> int:
    """The memory that this process has now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES
