"""The number `-0` in JSON, as Go writes a negative zero of a FLOAT or DOUBLE.

For the JSON parser it is the integer 0. The sign is kept as a NegativeZero until the type of the column is known.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols.formats.frames.bodies import json_object
from ticdc_assets.schema.model import Kind, MySqlType

REALS: Final = frozenset({Kind.FLOAT, Kind.DOUBLE})
_TOKEN: Final = re.compile(rb"-0[^0-9.eE]")
"""A text value may match it too. Such a message is parsed twice, with the same result."""
_INT64_MIN, _UINT64_MAX = -(1 << 63), (1 << 64) - 1


class NegativeZero(int):
    """A number that is written `-0`."""

    def in_column(self, of: MySqlType) -> int | float:
        """The number in a column of this type."""
        return -0.0 if of.kind in REALS else 0


def json_row(body: bytes, where: str, images: tuple[str, ...]) -> dict[str, Any]:
    """Parse a JSON object like `json_object`, but each `-0` inside the members `images` is a NegativeZero."""
    found = json_object(body, where)
    if _TOKEN.search(body) is None:
        return found
    try:
        signed = json.loads(body, parse_int=_whole)
    except RecursionError:
        advice = "Compare the message with those of TiCDC; it stays in quarantine."
        raise DecodeError(where, "a JSON object", "one of too many levels", advice) from None
    return {name: signed[name] if name in images else value for name, value in found.items()}


def _whole(text: str) -> int | float:
    """A whole number as `json_object` reads it: a float beyond 64 bits."""
    if text == "-0":
        return NegativeZero()
    number = int(text)
    return number if _INT64_MIN <= number <= _UINT64_MAX else float(text)
