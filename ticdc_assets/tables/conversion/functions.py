"""Values as TiDB prints and rounds them, where SQL cannot compute this exactly, and their functions in SQL.

They give None for None.
"""

from __future__ import annotations

import json
import math
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PRINTED_DOUBLE: Final = "ticdc_printed_double"
PRINTED_FLOAT: Final = "ticdc_printed_float"
PRINTED_JSON: Final = "ticdc_printed_json"
ROUNDED_DECIMAL: Final = "ticdc_rounded_decimal"

_DIGITS_MAX: Final = 81
"""Digits of a number in TiDB."""
_EXACT: Final = Context(prec=800, rounding=ROUND_HALF_UP)
_INTEGERS: Final = (-(1 << 63), (1 << 64) - 1)
_FIXED: Final = (1e-6, 1e21)
"""JSON numbers from the first up to the second are printed without an exponent."""
_DEPTH_MAX: Final = 100
_ESCAPES: Final = {
    **{chr(code): f"\\u{code:04x}" for code in (*range(32), 0x2028, 0x2029)},
    '"': '\\"',
    "\\": "\\\\",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
}


def printed_double(number: float | None) -> str | None:
    """The fewest digits that give the DOUBLE again, without an exponent."""
    return None if number is None else f"{Decimal(repr(number)):f}".removesuffix(".0")


def printed_float(number: float | None) -> str | None:
    """The fewest digits that give the FLOAT again, without an exponent."""
    return None if number is None else np.format_float_positional(np.float32(number), trim="-")


def rounded_decimal(text: str | None, digits: int, scale: int) -> str | None:
    """A number rounded half away from zero, with `scale` digits after the point; None where it needs more than `digits`
    digits."""
    if text is None:
        return None
    number = Decimal(text)
    if number.adjusted() >= _DIGITS_MAX:
        return None
    rounded = number.quantize(Decimal(1).scaleb(-scale), context=_EXACT)
    if rounded.is_zero():
        return f"{rounded.copy_abs():f}"
    return f"{rounded:f}" if rounded.adjusted() < digits - scale else None


def printed_json(text: str | None) -> str | None:
    """A text as TiDB prints it once it is JSON: keys in order, one space after `,` and `:`. None also where the text is
    not JSON, and where TiDB's result is not known."""
    try:
        return None if text is None else _json(json.loads(text, parse_constant=_no_number, parse_float=float), 1)
    except (ValueError, RecursionError):
        return None


def _no_number(name: str) -> float:
    raise ValueError(name)


def _json(value: Any, depth: int) -> str:
    if depth > _DEPTH_MAX:
        raise ValueError("deep")
    if isinstance(value, dict):
        ordered = sorted(value.items(), key=lambda item: item[0].encode())
        return "{" + ", ".join(f"{_json_text(key)}: {_json(part, depth + 1)}" for key, part in ordered) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_json(part, depth + 1) for part in value) + "]"
    if isinstance(value, str):
        return _json_text(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int) and _INTEGERS[0] <= value <= _INTEGERS[1]:
        return str(value)
    return _json_number(float(value))


def _json_text(text: str) -> str:
    text.encode()  # refuses single surrogates
    return f'"{"".join(_ESCAPES.get(character, character) for character in text)}"'


def _json_number(number: float) -> str:
    if not math.isfinite(number):
        raise ValueError("infinite")
    if number == 0 or _FIXED[0] <= abs(number) < _FIXED[1]:
        return f"{Decimal(repr(number)):f}".removesuffix(".0")
    mantissa, _, exponent = repr(number).partition("e")
    if not exponent:
        return f"{Decimal(mantissa):e}"
    return f"{mantissa.removesuffix('.0')}e{int(exponent):+d}"


def register(spark: SparkSession) -> None:
    """Let a session call the functions. Each of them gives text."""
    spark.udf.register(PRINTED_DOUBLE, printed_double, "string")
    spark.udf.register(PRINTED_FLOAT, printed_float, "string")
    spark.udf.register(PRINTED_JSON, printed_json, "string")
    spark.udf.register(ROUNDED_DECIMAL, rounded_decimal, "string")
