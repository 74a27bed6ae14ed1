r"""TiCDC's table filter: rules such as `*.*`, `!db.tmp_*`, `"a.b".c`, `/^log/.*` decide which tables are meant.

The syntax is that of TiDB's table-filter package: a schema and a table pattern with a dot between; each is a name,
a wildcard (`*`, `?`, `[a-z]`, `[!a-z]`, `\` before a special character), a name in double quotes or backquotes, or a
regular expression between slashes, which matches anywhere in the name. The last rule that matches decides; a table that
no rule matches is not meant. Rules that import files (`@file`) are refused.
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
    """Rules, ready to use. Names are compared without regard to case unless `case_sensitive`, as in TiCDC.

    Raises ConfigError, with the rule, for one that cannot be read.
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
        """Whether a rule takes tables in; with none of them nothing ever matches."""
        return any(rule.accepts for rule in self._parsed)

    def matches(self, schema: str, table: str) -> bool:
        """Whether the last rule that matches accepts the table."""
        for rule in reversed(self._parsed):
            if rule.matches(schema, table):
                return rule.accepts
        return False


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
        todo = 'Write schema.table; a name that holds a dot is written "a.b".'
        raise _bad(text, "something after the table pattern", todo)
    flags = re.NOFLAG if case_sensitive else re.IGNORECASE
    return _Rule(accepts, _compile(schema, flags, text), _compile(table, flags, text))


def _bad(rule: str, found: str, todo: str) -> ConfigError:
    return ConfigError(f"filter rule {rule!r}", "TiCDC's table filter syntax", found, todo)


def _compile(pattern: str, flags: re.RegexFlag, rule: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern, flags)
    except (re.error, OverflowError, RecursionError):
        raise _bad(rule, "a pattern that does not compile", "Look at its brackets.") from None


def _pattern(text: str, rule: str) -> tuple[str, str]:
    """A regular expression for the pattern at the start of the text, and the text behind it."""
    match text[:1]:
        case "":
            raise _bad(rule, "a missing pattern", "Write schema.table, or schema.* for all of its tables.")
        case "/":
            found = _quoted(_REGEXP, text, rule)
            return _from_go(found[1], rule), text[found.end() :]
        case '"':
            found = _quoted(_DOUBLE_QUOTED, text, rule)
            return _exactly(found[1].replace('""', '"')), text[found.end() :]
        case "`":
            found = _quoted(_BACKQUOTED, text, rule)
            return _exactly(found[1].replace("``", "`")), text[found.end() :]
    return _wildcard(text, rule)


def _quoted(pattern: re.Pattern[str], text: str, rule: str) -> re.Match[str]:
    found = pattern.match(text)
    if found is None:
        raise _bad(rule, f"no closing {text[0]}", f"Close it with {text[0]}.")
    return found


def _exactly(name: str) -> str:
    return rf"\A{re.escape(name)}\Z"


def _from_go(pattern: str, rule: str) -> str:
    if _NOT_IN_GO.search(pattern):
        raise _bad(rule, "a look-around or back-reference", "Go's regular expressions have none; use further rules.")
    if "[[:" in pattern or "[^[:" in pattern:
        raise _bad(rule, "a class such as [[:alpha:]]", "Write [a-zA-Z].")
    # Go's \z is Python's \Z, its $ does not match before a final line break, its \d \w \s \b know ASCII only.
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
        todo = 'Put the name in double quotes, such as "odd-name"."t".'
        raise _bad(rule, f"the special character {first!r}", todo)
    return re.escape(first), 1


def _escaped(text: str, rule: str) -> str:
    if len(text) < 2 or (text[1].isascii() and text[1].isalnum()):
        raise _bad(rule, "a backslash before a letter, a digit or the end", "Remove the backslash.")
    return re.escape(text[1])


def _character_class(text: str, rule: str) -> tuple[str, int]:
    found = _RANGE.match(text)
    if found is None:
        raise _bad(rule, "a [ without its ]", "Close the character class, or write \\[ for the character.")
    inside = re.sub(r"([\[^&~|]|--)", lambda m: "".join(f"\\{c}" for c in m[0]), _unescaped(found[2]))
    return f"[{'^' if found[1] else ''}{inside}]", found.end()


def _unescaped(inside: str) -> str:
    # An escaped character keeps its backslash; Python would read some bare ones (&&, ~~, ||, --) as set operations.
    return re.sub(r"\\([\[^&~|])", r"\1", inside)
