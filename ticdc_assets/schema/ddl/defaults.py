"""Column defaults: the literal as TiDB prints it in the column's type. `evolution.schema_state` has the values of
older rows.

In: the text after DEFAULT and the column's type. Out: `Default`s. A literal that does not fit its type stays as
written: nothing is refused here, since most defaults never fill a row.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Final

from ticdc_assets.schema.arrow_types import BINARY_KINDS, CHARACTER_KINDS, INTEGER_BITS
from ticdc_assets.schema.ddl.token_cursor import TokenCursor
from ticdc_assets.schema.ddl.tokens import TokenKind
from ticdc_assets.schema.model import Default, Kind, MySqlType

_NOW: Final = ("CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP")
_TODAY: Final = ("CURRENT_DATE", "CURDATE")
_DIGITS_MAX: Final = 400  # longer than any DOUBLE written out; keeps 1e999999999 from becoming a gigabyte
_NUMBER_BYTES_MAX: Final = 32  # DECIMAL(65) needs 27
_EXACT: Final = Context(prec=_DIGITS_MAX * 2, rounding=ROUND_HALF_UP)


@dataclass(frozen=True, slots=True)
class LiteralDefault:
    """A default as written: text of a string or number, bytes of a hex or bit literal, None for NULL."""

    value: str | bytes | None
    is_string: bool = False


@dataclass(frozen=True, slots=True)
class ComputedDefault:
    """A default that is computed; CURRENT_TIMESTAMP and its synonyms in one spelling, others as written."""

    text: str


WrittenDefault = LiteralDefault | ComputedDefault


# -- reading ----------------------------------------------------------------------------------------------------------


def read_default(cursor: TokenCursor) -> WrittenDefault:
    """Read a default's literal or expression at the cursor; parentheses around a literal do not count."""
    start = cursor.position
    depth = 0
    while cursor.accept_symbol("("):
        depth += 1
    written = _read_simple(cursor)
    if written is not None and cursor.close_parentheses(depth):
        return written
    cursor.position = start
    return _read_expression(cursor)


def _read_expression(cursor: TokenCursor) -> ComputedDefault:
    start = cursor.peek().start
    if cursor.at_symbol("("):
        cursor.parenthesised()
    elif cursor.accept("NEXT", "VALUE", "FOR") or cursor.accept("NEXTVAL", "FOR"):
        cursor.table_name("")
    elif cursor.peek().kind is TokenKind.WORD and cursor.peek(1).text == "(":
        cursor.take()
        cursor.parenthesised()
    else:
        raise cursor.fault("a default value")
    return ComputedDefault(cursor.source_since(start))


def _read_simple(cursor: TokenCursor) -> WrittenDefault | None:
    return _read_keyword(cursor) or _read_number(cursor) or _read_text(cursor)


def _read_keyword(cursor: TokenCursor) -> WrittenDefault | None:
    word = cursor.peek().word
    if word in ("NULL", "TRUE", "FALSE"):
        cursor.take()
        return LiteralDefault({"NULL": None, "TRUE": "1", "FALSE": "0"}[word])
    if word in _NOW:
        cursor.take()
        return ComputedDefault("CURRENT_TIMESTAMP" + _read_precision(cursor))
    if word in _TODAY:
        cursor.take()
        return ComputedDefault("CURRENT_DATE" + _read_precision(cursor))
    return None


def _read_precision(cursor: TokenCursor) -> str:
    if not cursor.accept_symbol("("):
        return ""
    digits = 0 if cursor.at_symbol(")") else cursor.integer()
    cursor.expect_symbol(")")
    return f"({digits})" if digits else ""


def _read_number(cursor: TokenCursor) -> WrittenDefault | None:
    ahead, sign = 0, ""
    while cursor.peek(ahead).kind is TokenKind.SYMBOL and cursor.peek(ahead).text in "+-":
        sign = ("" if sign else "-") if cursor.peek(ahead).text == "-" else sign
        ahead += 1
    if cursor.peek(ahead).kind is not TokenKind.NUMBER:
        return None
    cursor.position += ahead
    return LiteralDefault(sign + cursor.take().text)


def _read_text(cursor: TokenCursor) -> WrittenDefault | None:
    """A string, hex or bit literal, perhaps after a character set introducer or DATE, TIME, TIMESTAMP."""
    cursor.skip_introducers()
    kind = cursor.peek().kind
    if kind not in (TokenKind.STRING, TokenKind.HEX, TokenKind.BITS):
        return None
    if kind is TokenKind.STRING:
        return LiteralDefault(_read_strings(cursor), is_string=True)
    return LiteralDefault(bits_value(cursor.take().text) if kind is TokenKind.BITS else hex_value(cursor.take().text))


def _read_strings(cursor: TokenCursor) -> str:
    parts = [cursor.value_string()]
    while cursor.peek().kind is TokenKind.STRING:
        parts.append(cursor.value_string())
    return "".join(parts)


def hex_value(digits: str) -> bytes:
    """The bytes of a hex literal's digits; an odd count has a zero in front."""
    return bytes.fromhex(digits if len(digits) % 2 == 0 else f"0{digits}")


def bits_value(digits: str) -> bytes:
    """The bytes of a bit literal's digits, high zeros in front."""
    return int(digits or "0", 2).to_bytes((len(digits) + 7) // 8, "big")


# -- as MySQL prints it -----------------------------------------------------------------------------------------------


def typed_default(written: WrittenDefault, of: MySqlType) -> Default:
    """The default as MySQL prints it for a column of this type: text, or bytes for binary columns."""
    if isinstance(written, ComputedDefault):
        return Default(expression=written.text)
    if written.value is None:
        return Default()
    return Default(value=_printed(written, of))


def _printed(literal: LiteralDefault, of: MySqlType) -> str | bytes:
    value = literal.value
    assert value is not None
    if isinstance(value, str) and not literal.is_string and of.kind in BINARY_KINDS | CHARACTER_KINDS:
        value = _plain_number(value)
    if of.kind in BINARY_KINDS:
        return value.encode("utf-8") if isinstance(value, str) else value
    if of.kind is Kind.BIT:
        raw = value.encode("utf-8") if isinstance(value, str) and literal.is_string else value
        # TiDB takes a number with a fraction for the bytes of its text: left as written, which no BIT holds.
        return _number_text(raw) if isinstance(raw, bytes) else raw
    if of.kind in CHARACTER_KINDS or of.kind is Kind.JSON:
        return value if isinstance(value, str) else value.decode("utf-8", "replace")
    text = value if isinstance(value, str) else _bytes_text(value, of)
    return _printed_text(text, literal.is_string, of)


def _bytes_text(value: bytes, of: MySqlType) -> str:
    if of.kind in INTEGER_BITS or of.kind in (Kind.DECIMAL, Kind.FLOAT, Kind.DOUBLE, Kind.YEAR):
        return _number_text(value)
    return value.decode("utf-8", "replace")


def _plain_number(text: str) -> str:
    """A number as text: a floating point one, which has an exponent, with the digits it needs and without exponent."""
    number = float(text) if "e" in text.lower() else math.inf
    if not math.isfinite(number):
        return text if text.strip("-0.") else text.lstrip("-")
    digits = f"{Decimal(repr(number)):f}"
    return digits.rstrip("0").rstrip(".") if "." in digits else digits


def _number_text(raw: bytes) -> str:
    # More bytes than any number has stay as they are, which no numeric column accepts.
    return str(int.from_bytes(raw, "big")) if len(raw) <= _NUMBER_BYTES_MAX else f"0x{raw.hex()}"


def _printed_text(text: str, is_string: bool, of: MySqlType) -> str:
    if of.kind in INTEGER_BITS:
        return rounded(text, 0)
    if of.kind is Kind.DECIMAL:
        return rounded(text, of.scale or 0)
    if of.kind in (Kind.FLOAT, Kind.DOUBLE):
        return _float_text(text.strip().removeprefix("+"), of.scale)
    if of.kind is Kind.YEAR:
        return _year(text, is_string)
    if of.kind is Kind.ENUM:
        return _label(text, is_string, of.elements or ())
    if of.kind is Kind.SET:
        return _labels(text, is_string, of.elements or ())
    if of.kind in (Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP):
        return _date_text("0000-00-00" if text == "0" and not is_string else text, of)
    return _time_text(text, of) if of.kind is Kind.TIME else text


def rounded(text: str, scale: int) -> str:
    """A number rounded to `scale` digits after the point, halves away from zero; other text is unchanged."""
    try:
        number = Decimal(text.strip())
        if not number.is_finite() or number.adjusted() > _DIGITS_MAX:
            return text
        rounded = number.quantize(Decimal(1).scaleb(-scale), context=_EXACT)
    except InvalidOperation:
        return text
    return f"{rounded.copy_abs() if rounded.is_zero() else rounded:f}"


def _float_text(text: str, scale: int | None) -> str:
    """FLOAT(m,d) and DOUBLE(m,d) round as TiDB does: times 10 to the d as a float, halves to even."""
    if scale is None:
        return text
    try:
        scaled = float(text) * 10.0**scale
    except ValueError:
        return text
    return f"{round(scaled) / 10.0**scale:.{scale}f}" if math.isfinite(scaled) else text


def _year(text: str, is_string: bool) -> str:
    digits = rounded(text, 0)
    if not digits.isdecimal() or len(digits) > 4:
        return text
    year = int(digits)
    if year == 0:
        # TiDB keeps the number 0 as the text '0', which is the year 2000; the year 0 is '0000' alone.
        return "0000" if is_string and len(text.strip()) >= 4 else "2000"
    return str(year + (2000 if year < 70 else 1900)) if year < 100 else digits


def _label(text: str, is_string: bool, labels: tuple[str, ...]) -> str:
    if not is_string:
        place = int(text) if text.isdecimal() and len(text) < 6 else 0
        return labels[place - 1] if 0 < place <= len(labels) else text
    return text if text in labels else _by_folded(labels).get(text.rstrip(" ").lower(), text)


def _by_folded(labels: tuple[str, ...]) -> dict[str, str]:
    return {label.lower(): label for label in reversed(labels)}


def _labels(text: str, is_string: bool, labels: tuple[str, ...]) -> str:
    if not labels:
        return text
    if not is_string and text.isdecimal() and len(text) <= 20:
        return ",".join(label for place, label in enumerate(labels) if int(text) >> place & 1)
    folded = _by_folded(labels)
    chosen = {folded.get(part.rstrip(" ").lower(), part) for part in text.split(",")}
    return ",".join(label for label in labels if label in chosen) if chosen <= set(labels) else text


_DATE = re.compile(r"(\d{1,4})\D(\d{1,2})\D(\d{1,2})(?:[T\s]+(\d{1,2})(?:\D(\d{1,2}))?(?:\D(\d{1,2}))?(?:\.(\d*))?)?")
_PACKED_DATE = re.compile(r"(\d{4}|\d{2})(\d\d)(\d\d)(?:(\d\d)(\d\d)(\d\d)(?:\.(\d*))?)?")
# Sign, days, hours, minutes, seconds, fraction.
_TIMES = (
    re.compile(r"(-?)(?:(\d{1,2})\s+)?(\d{1,3}):(\d{1,2})(?::(\d{1,2}))?(?:\.(\d*))?"),
    re.compile(r"(-?)(\d{1,2})\s+(\d{1,3})()()()"),
    re.compile(r"(-?)()(\d{0,3}?)(\d{0,2}?)(\d{1,2})(?:\.(\d*))?"),
)


def _date_text(text: str, of: MySqlType) -> str:
    found = _PACKED_DATE.fullmatch(text.strip()) or _DATE.fullmatch(text.strip())
    if found is None:
        return text
    year, *others = (int(part or 0) for part in found.groups()[:6])
    if len(found[1]) <= 2 and any((year, *others)):
        year += 2000 if year < 70 else 1900
    parts = (year, *others)
    if of.kind is not Kind.DATE:
        return _rounded_moment(parts, found[7] or "", of.length or 0) or text
    day = "{:04d}-{:02d}-{:02d}".format(*parts[:3])
    # A fraction rounds to whole seconds first, which may be the next day.
    return (_rounded_moment(parts, found[7], 0) or day).partition(" ")[0] if found[7] else day


def _rounded_moment(parts: tuple[int, ...], fraction: str, digits: int) -> str | None:
    """The time with `digits` fraction digits, rounded half up as in MySQL; None when there is no such time."""
    if not any(parts):
        return "0000-00-00 00:00:00" + fraction_text(0, digits)
    try:
        moment = datetime(*parts) + timedelta(microseconds=_to_digits(fraction, digits))  # type: ignore[arg-type]
    except (ValueError, OverflowError):
        return None
    return f"{moment.year:04d}" + moment.strftime("-%m-%d %H:%M:%S") + fraction_text(moment.microsecond, digits)


def _to_digits(fraction: str, digits: int) -> int:
    """The microseconds of a fraction rounded half up to `digits` digits."""
    kept = int(f"{fraction:0<6}"[:digits] or "0") + (fraction[digits : digits + 1] >= "5")
    return kept * int(10 ** (6 - digits))


def fraction_text(micros: int, digits: int) -> str:
    """The printed fraction of a second: a point and `digits` digits; "" for none."""
    return "." + f"{micros:06d}"[:digits] if digits else ""


def _time_text(text: str, of: MySqlType) -> str:
    found = next((found for form in _TIMES if (found := form.fullmatch(text.strip()))), None)
    if found is None:
        return text
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups()[1:5])
    digits = of.length or 0
    micros = _to_digits(found[6] or "", digits)
    total = ((days * 24 + hours) * 60 + minutes) * 60 + seconds + micros // 1_000_000
    clock = f"{total // 3600:02d}:{total // 60 % 60:02d}:{total % 60:02d}"
    sign = found[1] if total or micros else ""
    return sign + clock + fraction_text(micros % 1_000_000, digits)
