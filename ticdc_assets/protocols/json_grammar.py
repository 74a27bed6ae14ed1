"""Pieces of RE2 patterns for JSON as TiCDC writes it: no spaces, members in a known order.

A text that matches a pattern made of these, as bytes and as a whole, and that is UTF-8, is one that a strict JSON
parser accepts, with the values that the pattern's pieces stand for. What they refuse may still be JSON.
"""

from __future__ import annotations

from typing import Final

_UNIT: Final = r"[0-9a-cefA-CEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}"
_PAIR: Final = r"[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
TEXT: Final = rf'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u(?:{_UNIT}|{_PAIR})))*"'
"""A string, its escapes well-formed and its surrogates in pairs."""
NAME: Final = TEXT.removesuffix('*"') + '+"'
"""A string that is not empty."""
TEXTS: Final = rf"\[(?:{TEXT}(?:,{TEXT})*)?\]"
"""A list of strings."""


def up_to(limit: int) -> str:
    """The whole numbers from 1 to `limit`, which has several digits, without leading zeros."""
    digits = str(limit)
    ways = [f"[1-9][0-9]{{0,{len(digits) - 2}}}"]
    for place, digit in enumerate(digits):
        low, high = int(place == 0), int(digit) - 1
        if low <= high:
            ways.append(f"{digits[:place]}[{low}-{high}][0-9]{{{len(digits) - place - 1}}}")
    return f"(?:{'|'.join((*ways, digits))})"


POSITIVE: Final = up_to((1 << 63) - 1)
"""From 1 to the largest signed number of 64 bits."""
COUNT: Final = f"(?:0|{POSITIVE})"
INT64: Final = f"(?:0|{POSITIVE}|-{up_to(1 << 63)})"
NUMBER: Final = (
    rf"(?:0|{up_to((1 << 64) - 1)}|-{up_to(1 << 63)}|-?[1-9][0-9]{{20}}"
    r"|-?(?:0|[1-9][0-9]{0,20})\.[0-9]{1,30}|-?[1-9](?:\.[0-9]{1,30})?e(?:-[0-9]{1,3}|\+(?:[0-9]{1,2}|[12][0-9]{2}|30[0-7]))"
    r"|-?1(?:\.(?:[0-6][0-9]{0,29}|7976931348623157))?e\+308)"
)
"""A number that Go writes: whole ones to 64 bits, or a finite float. Of whole floats only those that no type takes for
an integer, since readers turn them into floats."""


def members(value: str) -> str:
    """An object of one or more members with such values."""
    return rf"\{{{TEXT}:{value}(?:,{TEXT}:{value})*\}}"
