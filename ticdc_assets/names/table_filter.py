r"""TiCDC's table filter: rules such as `*.*`, `!db.tmp_*`, `"a.b".c`, `/^log/.*` select tables.

The syntax is that of TiDB's table-filter package: a schema pattern and a table pattern joined with a dot. Each pattern
is a name, a wildcard (`*`, `?`, `[a-z]`, `[!a-z]`, `\` before a special character), a name in double quotes or
backquotes, or a regular expression between slashes, which matches anywhere in the name. The last rule that matches
decides; a table that matches no rule is not selected. Rules that import files (`@file`) are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from ticdc_assets.errors import ConfigError
from ticdc_assets.names.folding import fold

_REGEXP: Final = re.compile(r"/((?:\\.|[^/])+)/")
_DOUBLE_QUOTED: Final = re.compile(r'"((?:""|[^"])+)"')
_BACKQUOTED: Final = re.compile(r"`((?:``|[^`])+)`")
_RANGE: Final = re.compile(r"\[(!?+)((?:\\[^0-9a-zA-Z]|[^\\\]])+)\]")
_NAME_CHAR: Final = re.compile(r"[0-9A-Za-z$_\u0080-\U0010ffff]")
_DOTLESS: Final = "\U0010fffe"
_DOTTED: Final = "\U0010ffff"
"""Stand for ı and İ in patterns without regard to case; no characters, so that they equal no other."""
_NOT_IN_GO: Final = re.compile(r"\(\?(?:[=!]|<[=!]|P=|\(|#)|(?<!\\)(?:\\\\)*\\[1-9]")


@dataclass(frozen=True, slots=True)
class _Pattern:
    """The regular expression of a pattern. `is_name` if it is a single name, `is_whole` if all of a name must match."""

    text: str
    is_name: bool = False
    is_whole: bool = False


@dataclass(frozen=True, slots=True)
class _Rule:
    accepts: bool
    schema: re.Pattern[str]
    table: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class TableFilter:
    """A parsed list of rules. Names are compared without regard to case unless `case_sensitive`, as in TiCDC.

    Raises:
        ConfigError: a rule is invalid; the error names it.
    """

    rules: tuple[str, ...]
    case_sensitive: bool = False
    _parsed: tuple[_Rule, ...] = field(init=False, repr=False, compare=False)

    def __init__(self, rules: Iterable[str], case_sensitive: bool = False) -> None:
        object.__setattr__(self, "rules", tuple(rules))
        object.__setattr__(self, "case_sensitive", case_sensitive)
        parsed = (_parse_rule(rule, case_sensitive) for rule in self.rules)
        object.__setattr__(self, "_parsed", tuple(rule for rule in parsed if rule is not None))

    @property
    def takes_any(self) -> bool:
        """Whether any rule includes tables; without one nothing ever matches."""
        return any(rule.accepts for rule in self._parsed)

    def matches(self, schema: str, table: str) -> bool:
        """Whether the last rule that matches accepts the table."""
        if not self.case_sensitive:
            schema, table = _as_compared(schema), _as_compared(table)
        return next(
            (r.accepts for r in reversed(self._parsed) if r.schema.search(schema) and r.table.search(table)), False
        )


@dataclass(frozen=True, slots=True)
class ColumnSelector:
    """Which columns of some tables TiCDC sends: those that the last matching rule accepts (`name`, `a*`, `!secret`).

    Columns are compared without regard to case.

    Raises:
        ConfigError: a rule is invalid; the error names it.
    """

    tables: TableFilter
    columns: tuple[str, ...]
    _parsed: tuple[tuple[bool, re.Pattern[str]], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        parsed = tuple(_parse_column_rule(rule) for rule in self.columns)
        object.__setattr__(self, "_parsed", tuple(rule for rule in parsed if rule is not None))

    def takes(self, column: str) -> bool:
        """Whether TiCDC sends a column of one of these tables."""
        name = _as_compared(column)
        return next((accepts for accepts, names in reversed(self._parsed) if names.search(name)), False)


@dataclass(frozen=True, slots=True)
class ColumnSelectors:
    """`sink.column-selectors`: the first selector that matches a table decides."""

    selectors: tuple[ColumnSelector, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.selectors)

    def leaves_out(self, schema: str, table: str, column: str) -> bool:
        """Whether the changefeed excludes the column from rows of the table."""
        for selector in self.selectors:
            if selector.tables.matches(schema, table):
                return not selector.takes(column)
        return False


def _parse_column_rule(text: str) -> tuple[bool, re.Pattern[str]] | None:
    rest = text.strip(" \t")
    if not rest or rest.startswith("#"):
        return None
    pattern, left = _pattern(rest.removeprefix("!"), text)
    if left:
        raise _bad(text, "something after the column pattern", "Write one column or pattern in each rule.")
    return not rest.startswith("!"), _compile(pattern, False, text)


def _parse_rule(text: str, case_sensitive: bool) -> _Rule | None:
    rest = text.strip(" \t")
    if not rest or rest.startswith("#"):
        return None
    if rest.startswith("@"):
        raise _bad(text, "an import of a file", "Put the file's rules into the config.")
    accepts = not rest.startswith("!")
    schema, rest = _pattern(rest.removeprefix("!"), text)
    if not rest.startswith("."):
        raise _bad(text, "no dot between schema and table", "Write schema.table; quote names with special characters.")
    table, rest = _pattern(rest[1:], text)
    if rest:
        advice = 'Write schema.table; a name that holds a dot is written "a.b".'
        raise _bad(text, "something after the table pattern", advice)
    return _Rule(accepts, _compile(schema, case_sensitive, text), _compile(table, case_sensitive, text))


def _bad(rule: str, found: str, advice: str) -> ConfigError:
    return ConfigError(f"filter rule {rule!r}", "TiCDC's table filter syntax", found, advice)


def _as_compared(name: str) -> str:
    """A name as it is matched without regard to case: folded, and with the dotless i apart from i."""
    return fold(name).replace("ı", _DOTLESS)


def _compile(pattern: _Pattern, case_sensitive: bool, rule: str) -> re.Pattern[str]:
    text, flags = pattern.text, re.DOTALL if pattern.is_whole else re.NOFLAG
    if not case_sensitive and pattern.is_name:
        text = _as_compared(text)
    elif not case_sensitive:
        # Only names are folded: Go ignores the case of a regular expression, where İ is no i.
        text = "".join(char if char.isascii() else _as_compared(char) for char in text.replace("İ", _DOTTED))
        flags |= re.IGNORECASE
    try:
        return re.compile(rf"\A(?:{text})\Z" if pattern.is_whole else text, flags)
    except (re.error, OverflowError, RecursionError):
        raise _bad(rule, "a pattern that does not compile", "Check its brackets.") from None


def _pattern(text: str, rule: str) -> tuple[_Pattern, str]:
    """The pattern at the start of the text, and the rest of the text."""
    match text[:1]:
        case "":
            raise _bad(rule, "a missing pattern", "Write schema.table, or schema.* for all of its tables.")
        case "/":
            matched = _quoted(_REGEXP, text, rule)
            return _Pattern(_from_go(matched[1], rule)), text[matched.end() :]
        case '"':
            matched = _quoted(_DOUBLE_QUOTED, text, rule)
            return _name(matched[1].replace('""', '"')), text[matched.end() :]
        case "`":
            matched = _quoted(_BACKQUOTED, text, rule)
            return _name(matched[1].replace("``", "`")), text[matched.end() :]
    return _wildcard(text, rule)


def _quoted(pattern: re.Pattern[str], text: str, rule: str) -> re.Match[str]:
    matched = pattern.match(text)
    if matched is None:
        raise _bad(rule, f"no closing {text[0]}", f"Close it with {text[0]}.")
    return matched


def _name(name: str) -> _Pattern:
    return _Pattern(re.escape(name), is_name=True, is_whole=True)


def _from_go(pattern: str, rule: str) -> str:
    if _NOT_IN_GO.search(pattern):
        raise _bad(rule, "a look-around or back-reference", "Go's regular expressions have none; use further rules.")
    if "[[:" in pattern or "[^[:" in pattern:
        raise _bad(rule, "a class such as [[:alpha:]]", "Write [a-zA-Z].")
    # Go's \z is Python's \Z. Go's $ does not match before a final line break, and its \d \w \s \b are ASCII only.
    pattern = re.sub(r"((?<!\\)(?:\\\\)*)(?:\\z|\$(?=$|\)|\|))", r"\1\\Z", pattern)
    return f"(?a:{pattern})" if re.search(r"\\[dwsbDWSB]", pattern) else pattern


def _wildcard(text: str, rule: str) -> tuple[_Pattern, str]:
    built: list[str] = []
    at, is_name = 0, True
    while at < len(text) and text[at] != ".":
        is_name = is_name and text[at] not in "*?["
        piece, length = _wildcard_piece(text[at:], rule)
        built.append(piece)
        at += length
    if not built:
        raise _bad(rule, "a missing pattern", "Write schema.table, or schema.* for all of its tables.")
    return _Pattern("".join(built), is_name, is_whole=True), text[at:]


def _wildcard_piece(text: str, rule: str) -> tuple[str, int]:
    first = text[0]
    if first == "*":
        return ".*", 1
    if first == "?":
        return ".", 1
    if first == "\\":
        return _escaped(text, rule), 2
    if first == "[":
        return _character_class(text, rule)
    if not _NAME_CHAR.match(first):
        advice = 'Put the name in double quotes, such as "odd-name"."t".'
        raise _bad(rule, f"the special character {first!r}", advice)
    return re.escape(first), 1


def _escaped(text: str, rule: str) -> str:
    if len(text) < 2 or (text[1].isascii() and text[1].isalnum()):
        raise _bad(rule, "a backslash before a letter, a digit or the end", "Remove the backslash.")
    return re.escape(text[1])


def _character_class(text: str, rule: str) -> tuple[str, int]:
    matched = _RANGE.match(text)
    if matched is None:
        raise _bad(rule, "a [ without its ]", "Close the character class, or write \\[ for the character.")
    inside = re.sub(r"([\[^&~|]|--)", lambda m: "".join(f"\\{c}" for c in m[0]), _unescaped(matched[2]))
    if _has_dotless(inside):
        inside += _DOTLESS
    return f"[{'^' if matched[1] else ''}{inside}]", matched.end()


def _has_dotless(inside: str) -> bool:
    try:
        return re.match(f"[{inside}]", "ı") is not None
    except re.error:
        return False  # `_compile` refuses it


def _unescaped(inside: str) -> str:
    # An escaped character keeps its backslash: Python would read some unescaped ones (&&, ~~, ||, --) as set operators.
    return re.sub(r"\\([\[^&~|])", r"\1", inside)
