"""How many of something there are is said in the right number."""

from __future__ import annotations

import pytest

from ticdc_assets.plurals import counted


@pytest.mark.parametrize(
    ("number", "words", "text"),
    [
        (0, ("file",), "0 files"),
        (1, ("file",), "1 file"),
        (2000, ("file",), "2,000 files"),
        (1, ("branch", "branches"), "1 branch"),
        (2, ("branch", "branches"), "2 branches"),
    ],
)
def test_a_count_of_one_has_the_singular_and_any_other_the_plural(number: int, words: tuple[str, ...], text: str):
    assert counted(number, *words) == text
