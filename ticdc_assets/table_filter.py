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

_REGEXP: Final = re.compile(r"/((?:\\.|[^/])+)/")
_DOUBLE_QUOTED: Final = re.compile(r'"((?:""|[^"])+)"')
_BACKQUOTED: Final = re.compile(r"`((?:``|[^`])+)`")
_RANGE: Final = re.compile(r"\[(!?+)((?:\\[^0-9a-zA-Z]|[^\\\]])+)\]")
_NAME_CHAR: Final = re.compile(r"[0-9A-Za-z$_\u0080-\U0010ffff]")
_NOT_IN_GO: Final = re.compile(r"\(\?(?:[=!]|<[=!]|P=|\(|#)|(?<!\\)(?:\\\\)*\\[1-9]")


@dataclass(frozen=True, slots=True)
class _Rule:
    accepts: bool
    schema: re.Pattern[str]
    table: re.Pattern[str]

    def matches(self, schema: str, table: str) -> bool:
        return self.schema.search(schema) is not None and self.table.search(table) is not None


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
        for rule in reversed(self._parsed):
            if rule.matches(schema, table):
                return rule.accepts
        return False


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
        return next((accepts for accepts, names in reversed(self._parsed) if names.search(column)), False)


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
    return not rest.startswith("!"), _compile(pattern, re.IGNORECASE, text)


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
    flags = re.NOFLAG if case_sensitive else re.IGNORECASE
    return _Rule(accepts, _compile(schema, flags, text), _compile(table, flags, text))


def _bad(rule: str, found: str, advice: str) -> ConfigError:
    return ConfigError(f"filter rule {rule!r}", "TiCDC's table filter syntax", found, advice)


def _compile(pattern: str, flags: re.RegexFlag, rule: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern, flags)
    except (re.error, OverflowError, RecursionError):
        raise _bad(rule, "a pattern that does not compile", "Check its brackets.") from None


def _pattern(text: str, rule: str) -> tuple[str, str]:
    """The regular expression of the pattern at the start of the text, and the rest of the text."""
    match text[:1]:
        case "":
            raise _bad(rule, "a missing pattern", "Write schema.table, or schema.* for all of its tables.")
        case "/":
            matched = _quoted(_REGEXP, text, rule)
            return _from_go(matched[1], rule), text[matched.end() :]
        case '"':
            matched = _quoted(_DOUBLE_QUOTED, text, rule)
            return _exactly(matched[1].replace('""', '"')), text[matched.end() :]
        case "`":
            matched = _quoted(_BACKQUOTED, text, rule)
            return _exactly(matched[1].replace("``", "`")), text[matched.end() :]
    return _wildcard(text, rule)


def _quoted(pattern: re.Pattern[str], text: str, rule: str) -> re.Match[str]:
    matched = pattern.match(text)
    if matched is None:
        raise _bad(rule, f"no closing {text[0]}", f"Close it with {text[0]}.")
    return matched


def _exactly(name: str) -> str:
    return rf"\A{re.escape(name)}\Z"


def _from_go(pattern: str, rule: str) -> str:
    if _NOT_IN_GO.search(pattern):
        raise _bad(rule, "a look-around or back-reference", "Go's regular expressions have none; use further rules.")
    if "[[:" in pattern or "[^[:" in pattern:
        raise _bad(rule, "a class such as [[:alpha:]]", "Write [a-zA-Z].")
    # Go's \z is Python's \Z. Go's $ does not match before a final line break, and its \d \w \s \b are ASCII only.
    pattern = re.sub(r"((?<!\\)(?:\\\\)*)(?:\\z|\$(?=$|\)|\|))", r"\1\\Z", pattern)
    return f"(?a:{pattern})" if re.search(r"\\[dwsbDWSB]", pattern) else pattern


def _wildcard(text: str, rule: str) -> tuple[str, str]:
    built: list[str] = []
    at = 0
    while at < len(text) and text[at] != ".":
        piece, length = _wildcard_piece(text[at:], rule)
        built.append(piece)
        at += length
    if not built:
        raise _bad(rule, "a missing pattern", "Write schema.table, or schema.* for all of its tables.")
    return rf"(?s:\A{''.join(built)}\Z)", text[at:]


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
    return f"[{'^' if matched[1] else ''}{inside}]", matched.end()


def _unescaped(inside: str) -> str:
    # An escaped character keeps its backslash: Python would read some unescaped ones (&&, ~~, ||, --) as set operators.
    return re.sub(r"\\([\[^&~|])", r"\1", inside)
