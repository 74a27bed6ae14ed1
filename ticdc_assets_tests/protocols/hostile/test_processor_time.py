"""The limits of hostile inputs are those of the code under test: compiling does not count, and all else does."""

from __future__ import annotations

import time

import numba
import numpy as np
import pytest

from ticdc_assets_tests.protocols.hostile.mutations import Mutant, Mutator, Seed, alone
from ticdc_assets_tests.protocols.hostile.processor_time import stopwatch
from ticdc_assets_tests.protocols.hostile.targets import bombard


def one_mutant() -> Mutator:
    return Mutator([Seed((b"{}",), alone)], 0)


def busy(seconds: float) -> int:
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass
    return 0


def test_what_numba_takes_to_compile_does_not_count():
    compiled = numba.njit(lambda values: np.sort(values)[::-1].cumsum())

    with stopwatch() as watch:
        began, all_began = watch.seconds(), time.process_time()
        compiled(np.arange(3))
        counted, taken = watch.seconds() - began, time.process_time() - all_began

    assert taken > 0.2
    assert counted < taken / 4
    assert not watch.is_compiling


def test_an_input_that_takes_long_fails():
    with pytest.raises(AssertionError):
        bombard(lambda _mutant: busy(1.1), one_mutant(), 1)


def test_an_input_that_does_not_end_is_interrupted():
    def endless(_mutant: Mutant) -> int:
        return busy(60)

    with pytest.raises(AssertionError, match="it does not end"):
        bombard(endless, one_mutant(), 1)
