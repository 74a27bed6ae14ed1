"""A loaded function becomes that of a mutant wherever it is in use, with what it has kept."""

from __future__ import annotations

from functools import cache

from ticdc_assets import tso
from ticdc_assets.tso import from_physical_ms
from ticdc_assets_tests.mutants.mutations import mutants_of
from ticdc_assets_tests.mutants.patch import Loaded
from ticdc_assets_tests.mutants.trial import ROOT


def test_a_mutant_takes_the_place_of_its_function_in_all_modules_that_use_it():
    mutant = next(m for m in mutants_of(ROOT / "ticdc_assets/tso.py") if m.before == "ms << LOGICAL_BITS")
    sound, kept = from_physical_ms.__code__, cache(from_physical_ms)
    kept.__module__ = tso.__name__
    ms = 1 << tso.LOGICAL_BITS
    assert kept(ms) == ms * ms

    try:
        Loaded.of([mutant.path]).patch(mutant)
        found = from_physical_ms(ms), kept(ms)
    finally:
        from_physical_ms.__code__ = sound

    assert found == (1, 1)
    assert from_physical_ms(ms) == ms * ms
