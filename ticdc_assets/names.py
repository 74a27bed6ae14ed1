"""Names of source tables and columns as Iceberg, Spark, Dagster and file systems accept them.

The input is any MySQL name: Unicode, quotes, dots, slashes, line breaks. The output is an identifier that is valid in
every catalog and path. Different names have different identifiers, and `decode` restores the name unless it was too
long. Letters, digits, `_` and `-` are kept; any other character becomes `_x<hex>_`, so `a.b` is `a_x2e_b`. Upper case
is kept too: SQL, REST and file catalogs distinguish names by case, but Hive and Glue do not. For those,
`portable=True` encodes upper case and `-` as well.
"""

from __future__ import annotations

import hashlib
import re
import string
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from ticdc_assets.errors import ConfigError, SchemaError

ENCODED_BYTES_MAX: Final = 100
OP_NAME_CHARS_MAX: Final = 80
_LONG_DIGEST_CHARS: Final = 20
_KEY_DIGEST_CHARS: Final = 10
_OP_DIGEST_CHARS: Final = 8

_PLAIN: Final = frozenset(string.ascii_letters + string.digits + "_-")
_PLAIN_PORTABLE: Final = frozenset(string.ascii_lowercase + string.digits + "_")
_ESCAPE: Final = re.compile(r"_x([0-9a-f]{1,6})_")
_ESCAPE_START: Final = re.compile(r"_x[0-9a-f]{1,6}")
_EMPTY: Final = "_x_"
_LONG: Final = re.compile(rf"_xx[0-9a-f]{{{_LONG_DIGEST_CHARS}}}\Z")


# ---- tables ----------------------------------------------------------------------------------------------------------


def encode(name: str, *, portable: bool = False) -> str:
    """The identifier of a name: ASCII letters, digits, `_` and `-` only, at most 100 bytes, never empty.

    The identifier of a longer name is its beginning, `_xx` and a digest.
    """
    plain = _PLAIN_PORTABLE if portable else _PLAIN
    if name in {"", _EMPTY}:
        return _EMPTY if name == "" else "_x5f_x_"
    pieces = list(_encoded(name, lambda text, at: text[at] in plain and not _reads_as_escape(text, at, plain)))
    encoded = "".join(pieces)
    if len(encoded) <= ENCODED_BYTES_MAX:
        return encoded
    return _shortened(pieces, name)


def decode(identifier: str) -> str | None:
    """The name that was given to `encode`; None for a shortened name (the control table `tables` has it)."""
    if identifier == _EMPTY:
        return ""
    without_escapes = _ESCAPE.sub("\0", identifier)
    if _LONG.search(without_escapes):
        return None
    return _unescaped(identifier)


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)


def _encoded(name: str, stays: Callable[[str, int], bool]) -> Iterator[str]:
    for at, char in enumerate(name):
        yield char if stays(name, at) else f"_x{ord(char):x}_"


def _reads_as_escape(name: str, at: int, plain: frozenset[str]) -> bool:
    """Whether the underscore at this position must be encoded, as `decode` would read an escape or a digest there."""
    if name[at] != "_":
        return False
    found = _ESCAPE_START.match(name, at)
    if found is not None and found.end() < len(name):
        following = name[found.end()]
        return following == "_" or following not in plain
    return _LONG.match(name, at) is not None


def _shortened(pieces: list[str], name: str) -> str:
    ending = f"_xx{_digest(name, _LONG_DIGEST_CHARS)}"
    lengths = accumulate(len(piece) for piece in pieces)
    kept = sum(1 for length in lengths if length + len(ending) <= ENCODED_BYTES_MAX)
    # The kept part and the underscore after it may together read as an escape.
    while decode("".join(pieces[:kept]) + ending) is not None:
        kept -= 1
    return "".join(pieces[:kept]) + ending


def _digest(text: str, chars: int) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:chars]


# ---- where tables go -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class IdentifierTemplates:
    """Templates of identifiers: parts joined with dots, with the fields {schema}, {table} and {changefeed}.

    `view` is None where mirrors have no views. `portable` is for catalogs that ignore case and do not accept `-`.
    """

    mirror: str = "{schema}.{table}"
    changelog: str = "{schema}__changes.{table}"
    control: str = "ticdc_{changefeed}"
    view: str | None = None
    portable: bool = False


FIELDS: Final = ("schema", "table", "changefeed")


def mirror_identifier(target: IdentifierTemplates, changefeed: str, schema: str, table: str) -> tuple[str, ...]:
    """Namespace parts and table name of the mirror; never the identifier of a changelog or control table."""
    return _apart(target, target.mirror, (target.changelog,), changefeed, schema, table)


def changelog_identifier(target: IdentifierTemplates, changefeed: str, schema: str, table: str) -> tuple[str, ...]:
    """Namespace parts and table name of the changelog; never the identifier of a mirror or control table."""
    return _apart(target, target.changelog, (target.mirror,), changefeed, schema, table)


def view_identifier(target: IdentifierTemplates, changefeed: str, schema: str, table: str) -> tuple[str, ...] | None:
    """Namespace parts and name of the view of a table's mirror; None where mirrors have no views."""
    return None if target.view is None else _filled(target, target.view, changefeed, schema, table)


def control_namespace(target: IdentifierTemplates, changefeed: str) -> tuple[str, ...]:
    """The namespace of the changefeed's control tables."""
    return _filled(target, target.control, changefeed, "", "")


def _filled(target: IdentifierTemplates, template: str, changefeed: str, schema: str, table: str) -> tuple[str, ...]:
    values = {
        "changefeed": encode(changefeed, portable=target.portable),
        "schema": encode(schema, portable=target.portable),
        "table": encode(table, portable=target.portable),
    }
    return tuple(part.format(**values) for part in template.split("."))


def _apart(
    target: IdentifierTemplates, template: str, others: tuple[str, ...], changefeed: str, schema: str, table: str
) -> tuple[str, ...]:
    identifier = _filled(target, template, changefeed, schema, table)
    foreign = any(_is_narrower(other, template) and _reads_as(other, identifier) for other in others)
    if not foreign and identifier[:-1] != control_namespace(target, changefeed):
        return identifier
    # A database may be called shop__changes, which is the namespace of the changelogs of shop. Its namespace is
    # encoded further than by `encode`, so that it equals no other.
    marked = (*identifier[:-2], _marked(identifier[-2]), identifier[-1])
    if any(_is_narrower(other, template) and _reads_as(other, marked) for other in others):
        advice = "Give mirror and changelog templates under `target:` that differ in the namespace's beginning or end."
        raise SchemaError(
            f"table {schema}.{table}", "an identifier of its own", "one that another table could have", advice
        )
    return marked


def _marked(part: str) -> str:
    last = f"_x{ord(part[-1]):x}_"
    return last if len(part) == 1 else f"_x{ord(part[0]):x}_{part[1:-1]}{last}"


def _is_narrower(template: str, than: str) -> bool:
    """Whether everything that matches `template` also matches `than`, but not the reverse."""
    sample = tuple(part.format(schema="s", table="t", changefeed="c") for part in than.split("."))
    return not _reads_as(template, sample)


def _reads_as(template: str, identifier: tuple[str, ...]) -> bool:
    parts = template.split(".")
    return len(parts) == len(identifier) and all(
        re.fullmatch(_as_regex(part), text, re.DOTALL) for part, text in zip(parts, identifier, strict=True)
    )


def _as_regex(part: str) -> str:
    return "".join(re.escape(text) + (".+" if name else "") for text, name, _, _ in string.Formatter().parse(part))


def check_target(target: IdentifierTemplates) -> None:
    """Raise ConfigError, with the name of the template, if identifiers would be invalid or not unique."""
    for name, template, needs in (
        ("mirror", target.mirror, 2),
        ("changelog", target.changelog, 2),
        ("control", target.control, 1),
    ):
        _check_template(name, template, needs)
    for name in ("mirror", "changelog"):
        if "{table}" not in getattr(target, name):
            raise ConfigError(name, "{table} in the template", "none", "Add {table}, else all tables would be one.")
    if _are_alike(target.changelog, target.mirror):
        advice = 'Add a fixed text to one of them, such as "{schema}__changes.{table}".'
        raise ConfigError("changelog", "identifiers that no mirror can have", "a template like that of mirror", advice)


def check_view(target: IdentifierTemplates) -> None:
    """Raise ConfigError if the identifiers of views would be invalid, or equal to those of tables."""
    where, example = "views", 'Write it as "{schema}__recorded.{table}".'
    if target.view is None:
        return
    _check_template(where, target.view, 2, example)
    if "{table}" not in target.view:
        raise ConfigError(where, "{table} in the template", "none", "Add {table}, else all views would be one.")
    for name in ("mirror", "changelog"):
        if _are_alike(target.view, getattr(target, name)):
            expected, found = f"identifiers that no {name} can have", f"a template like that of {name}"
            raise ConfigError(where, expected, found, example)


def _are_alike(one: str, other: str) -> bool:
    """Whether identifiers of either template can be identifiers of the other."""
    samples = [tuple(part.format(schema="s", table="t", changefeed="c") for part in t.split(".")) for t in (one, other)]
    return _reads_as(one, samples[1]) and _reads_as(other, samples[0])


def _check_template(name: str, template: str, parts_min: int, example: str = "") -> None:
    parts = template.split(".")
    if len(parts) < parts_min or not all(parts):
        expected = "namespace and table with a dot between" if parts_min > 1 else "a namespace"
        advice = example or f'Write it as "{getattr(IdentifierTemplates(), name)}".'
        raise ConfigError(name, expected, "fewer or empty parts", advice)
    try:
        pieces = [piece for part in parts for piece in string.Formatter().parse(part)]
    except ValueError:
        raise ConfigError(name, "a template", "unpaired braces", "Close each { with }.") from None
    fields = ("changefeed",) if name == "control" else FIELDS
    for literal, field_name, spec, conversion in pieces:
        if field_name is not None and (field_name not in fields or spec or conversion):
            raise ConfigError(name, f"only the fields {', '.join(fields)}", "another field", "Remove it.")
        if not set(literal) <= _PLAIN:
            raise ConfigError(name, "letters, digits, _ and - between fields", "other characters", "Remove them.")


# ---- columns ---------------------------------------------------------------------------------------------------------

_OWN_PREFIX: Final = "_ticdc_"
_OWN_SUFFIX: Final = re.compile(r"(?<=_)_v[0-9]{15,}\Z")
_ICEBERG_COLUMNS: Final = frozenset(
    {
        "_file",
        "_pos",
        "_deleted",
        "_spec_id",
        "_partition",
        "_change_type",
        "_change_ordinal",
        "_commit_snapshot_id",
        "_row_id",
        "_last_updated_sequence_number",
    }
)
_COLUMN_ESCAPE_START: Final = re.compile(r"_x[0-9a-f]{1,6}", re.IGNORECASE)
_COLUMN_ESCAPE: Final = re.compile(r"_x[0-9a-f]{1,6}_", re.IGNORECASE)
_AVRO_ESCAPE: Final = re.compile(r"_x([0-9A-F]{2,6})")


def column_name(name: str) -> str:
    """The column's name in the lake: unchanged, except for characters that a table cannot have.

    Spaces, quotes, slashes and Unicode are kept. Encoded as `_x<hex>_` are dots (which would read as the path of a
    nested field), control characters, the underscore of names that Iceberg or this project reserves, and that of names
    which Iceberg's rewriting for Parquet (`a b` to `a_x20b`, `1a` to `_1a`) could make equal to another column's name.
    """
    if name in {"", _EMPTY}:
        return _EMPTY if name == "" else "_x5f_x_"
    return "".join(_encoded(name, _column_char_stays))


def source_column_name(column: str) -> str:
    """The source's name of a lake column; the reverse of `column_name`."""
    if column == _EMPTY:
        return ""
    return _unescaped(column)


def _column_char_stays(name: str, at: int) -> bool:
    char = name[at]
    if char == "_":
        return not (_starts_reserved(name, at) or _reads_as_column_escape(name, at) or _OWN_SUFFIX.match(name, at))
    return _is_column_char(char)


def _is_column_char(char: str) -> bool:
    return char >= " " and char not in ".\x7f" and not "\ud800" <= char <= "\udfff"


def _starts_reserved(name: str, at: int) -> bool:
    lowered = name.lower()
    own = lowered.startswith(_OWN_PREFIX) or lowered in _ICEBERG_COLUMNS
    return at == 0 and (own or name[1:2].isdigit())


def _reads_as_column_escape(name: str, at: int) -> bool:
    if _COLUMN_ESCAPE.match(name, at):
        return True
    ends = _COLUMN_ESCAPE_START.match(name, at)
    if ends is not None and ends.end() < len(name) and not _is_column_char(name[ends.end()]):
        return True
    return any(_is_rewritten(int(found, 16)) for found in _hex_prefixes(name, at))


def _hex_prefixes(name: str, at: int) -> list[str]:
    found = _AVRO_ESCAPE.match(name, at)
    return [found[1][:length] for length in range(2, len(found[1]) + 1)] if found else []


def _is_rewritten(code: int) -> bool:
    """Whether Iceberg rewrites that character for Parquet, while `column_name` keeps it."""
    if 0xD800 <= code <= 0xDFFF:
        return True  # Java rewrites the surrogates of a character above U+FFFF one by one
    if code > sys.maxunicode or not _is_column_char(chr(code)):
        return False
    return not (chr(code).isalpha() or chr(code).isdecimal() or chr(code) == "_")


# ---- SQL and Dagster -------------------------------------------------------------------------------------------------


def quote(name: str) -> str:
    """Quote an identifier for Spark SQL."""
    return f"`{name.replace('`', '``')}`"


def quote_path(parts: tuple[str, ...]) -> str:
    """Quote a path of identifiers for Spark SQL, such as catalog, namespace and table."""
    return ".".join(quote(part) for part in parts)


_KEY_PART: Final = re.compile(r"[A-Za-z0-9]+(_[A-Za-z0-9]+)*")
_DIGESTED_KEY_PART: Final = re.compile(rf"(.*_)?h[0-9a-f]{{{_KEY_DIGEST_CHARS}}}")


def asset_key_part(name: str) -> str:
    """A part of a Dagster asset key. A name that Dagster accepts is kept; any other gets a digest.

    Dagster joins the parts with `__` into the name of an op or output. No part contains `__` or starts or ends with
    `_`, so different keys give different names there.
    """
    if _KEY_PART.fullmatch(name) and not _DIGESTED_KEY_PART.fullmatch(name) and len(name) <= ENCODED_BYTES_MAX:
        return name
    slug = _slug(name)[: ENCODED_BYTES_MAX - _KEY_DIGEST_CHARS - 2].strip("_")
    digest = _digest(name, _KEY_DIGEST_CHARS)
    return f"{slug}_h{digest}" if slug else f"h{digest}"


def op_name(*parts: str) -> str:
    """The name of a Dagster op, output or check: a readable slug and a digest of eight digits, so that it is unique."""
    ending = f"_{_digest(chr(0).join(part.replace(chr(0), chr(0) * 2 + '.') for part in parts), _OP_DIGEST_CHARS)}"
    slug = _slug("_".join(parts))[: OP_NAME_CHARS_MAX - len(ending)].strip("_")
    return f"{slug or 'op'}{ending}"


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")
