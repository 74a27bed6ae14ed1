"""Equality of names in TiDB."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

_NOT_IN_UNICODE_15: Final = re.compile(
    "[\u1c89\ua7cb\ua7cc\ua7ce\ua7d2\ua7d4\ua7da\ua7dc\U00010d50-\U00010d65\U00016ea0-\U00016eb8]"
)
"""Letters to which later versions of Unicode give a lower case; Python's version may have it, TiDB's has not."""


def fold(name: str) -> str:
    """The name of a database, table, column, index or partition as TiDB compares it: equal for equal names.

    TiDB takes the lower case of each character alone (`strings.ToLower` of Go, Unicode 15). `str.lower` differs: of İ
    it makes two characters, and Σ depends on its neighbours.
    """
    return name.lower() if name.isascii() else "".join(map(_lower, name))


def are_alike(one: str, other: str) -> bool:
    """Whether Go's `strings.EqualFold` takes two names for one: it also ignores the forms of a letter, such as s and
    the long s, which `fold` tells apart."""
    return len(one) == len(other) and all(map(_is_alike, one, other))


def _is_alike(one: str, other: str) -> bool:
    return one == other or _simple_fold(one) == _simple_fold(other)


def _simple_fold(char: str) -> str:
    whole = char.casefold()
    return whole if len(whole) == 1 else char if char == "\u0130" else char.lower()


@cache  # of all characters: a bounded number
def _lower(char: str) -> str:
    if char == "İ":
        return "i"
    return char if _NOT_IN_UNICODE_15.match(char) else char.lower()
