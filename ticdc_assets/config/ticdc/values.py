"""Options of TiCDC: their places in the configuration and the sink URI, and their valid values; the rules for tables.

A parser gets a value and its place, and raises ConfigError with that place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ticdc_assets.config.model.sink import Dispatch
from ticdc_assets.config.reading.sections import nearest, shown
from ticdc_assets.errors import ConfigError
from ticdc_assets.names.table_filter import ColumnSelector, ColumnSelectors, TableFilter

DISPATCHERS: Final = "sink.dispatchers"
SELECTORS: Final = "sink.column-selectors"
_PASTE: Final = "Paste it as TiCDC has it."


class Inputs:
    """The two places of options, and the warnings raised while reading."""

    def __init__(self, query: Mapping[str, str], config: Mapping[str, Any]) -> None:
        self.query = query
        self.config = config
        self.warnings: list[str] = []

    def find(self, path: str, parse: Callable[[Any, str], Any], query: str | None = None) -> Any:
        """The option at `path` of the configuration or at `query` of the URI, which overrides it; None if unset."""
        written = at(self.config, path)
        value = None if written is None else parse(written, f"config.{path}")
        if query is None or query not in self.query:
            return value
        given = parse(_from_query(self.query[query], parse), f"sink_uri parameter {query}")
        if value is not None and given is not None and given != value:
            self.warnings.append(
                f"{query} of sink_uri and {path} of the configuration differ: sink_uri wins, as in TiCDC"
            )
        return value if given is None else given


def at(config: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path of the configuration; None if it or a mapping above it is absent.

    Raises:
        ConfigError: a key above it has a single value where a mapping is expected.
    """
    value: Any = config
    for name in path.split("."):
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise ConfigError(f"config.{path}", "a mapping above it", "a single value", "Paste TiCDC's configuration.")
        value = value.get(name)
    return value


def _from_query(text: str, parse: Callable[[Any, str], Any]) -> Any:
    # Go parses a boolean in the URI with strconv.ParseBool; an empty one is false.
    if parse is boolean:
        return {**dict.fromkeys(_GO_TRUE, True), **dict.fromkeys(_GO_FALSE, False)}.get(text, text)
    return text


_GO_TRUE: Final = ("1", "t", "T", "TRUE", "true", "True")
_GO_FALSE: Final = ("", "0", "f", "F", "FALSE", "false", "False")


def boolean(value: Any, where: str) -> bool:
    """The value as true or false. Raises ConfigError where it is neither."""
    if not isinstance(value, bool):
        raise ConfigError(where, "true or false", shown(value), "Write true or false, without quotes.")
    return value


def integer(value: Any, where: str) -> int:
    """The value as a whole number. Raises ConfigError where it is none."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigError(where, "a whole number", shown(value), "Write it without quotes.")
    return value


def whole_number(value: Any, where: str) -> int:
    """A number that may be negative; in a URI it is a text."""
    return integer(int(value) if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,9}", value) else value, where)


def positive_number(value: Any, where: str) -> int:
    """A number above 0; in a URI it is a text."""
    number = int(value) if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}", value) else value
    if integer(number, where) < 1:
        raise ConfigError(where, "a whole number above 0", shown(value), "Write what the changefeed was given.")
    return int(number)


def text(value: Any, where: str) -> str:
    """The value as a text. Raises ConfigError where it is none."""
    if not isinstance(value, str):
        raise ConfigError(where, "a text", f"a {type(value).__name__}", "Put it in quotes.")
    return value


def word(*known: str) -> Callable[[Any, str], str | None]:
    """One of TiCDC's words; an empty text means unset."""

    def parse(value: Any, where: str) -> str | None:
        word = text(value, where).lower()
        if word and word not in known:
            meant = nearest(word, known)
            advice = f"Did you mean {meant}?" if meant else f"Write one of {', '.join(known)}."
            raise ConfigError(where, f"one of {', '.join(known)}", shown(value), advice)
        return word or None

    return parse


def tidy(value: Any, where: str) -> Any:
    """The same configuration with all keys in kebab-case."""
    if isinstance(value, list):
        return [tidy(item, where) for item in value]
    if not isinstance(value, Mapping):
        return value
    found: dict[str, Any] = {}
    for key, below in value.items():
        name = str(key).replace("_", "-")
        if name in found:
            raise ConfigError(f"{where}.{name}", "each key once", "two spellings of it", "Keep one of the two.")
        found[name] = tidy(below, f"{where}.{name}")
    return found


# -- rules for tables: `sink.dispatchers` and `sink.column-selectors` --------------------------------------------------


def read_dispatch(config: Mapping[str, Any]) -> Dispatch:
    """Read all dispatch rules. Raises ConfigError for an unknown form."""
    rules = _rules(config, DISPATCHERS)
    topics = (_text(rule, "topic", DISPATCHERS) for rule in rules)
    return Dispatch(
        topics=tuple(topic for topic in topics if topic),
        renames_tables=any(
            _text(rule, name, DISPATCHERS) for rule in rules for name in ("target-schema", "target-table")
        ),
        spreads_keys=any(_spreads_keys(rule) for rule in rules),
    )


def _spreads_keys(rule: Mapping[str, Any]) -> bool:
    """Whether changes of one row may go to several partitions: by time, or by values other than the handle key."""
    partition = (_text(rule, "partition", DISPATCHERS) or _text(rule, "dispatcher", DISPATCHERS)).lower()
    by_index = partition == "index-value" and bool(_text(rule, "index", DISPATCHERS))
    return partition in ("ts", "columns") or by_index


def read_selectors(config: Mapping[str, Any], case_sensitive: bool) -> ColumnSelectors:
    """Read the column selectors. Raises ConfigError for one that TiCDC would refuse."""
    return ColumnSelectors(tuple(_selector(rule, case_sensitive) for rule in _rules(config, SELECTORS)))


def _selector(rule: Mapping[str, Any], case_sensitive: bool) -> ColumnSelector:
    matcher, columns = (_texts(rule, name) for name in ("matcher", "columns"))
    return ColumnSelector(TableFilter(matcher, case_sensitive), columns)


def _rules(config: Mapping[str, Any], path: str) -> Sequence[Mapping[str, Any]]:
    rules = at(config, path) or []
    if not isinstance(rules, list) or not all(isinstance(rule, Mapping) for rule in rules):
        raise ConfigError(f"config.{path}", "a list of mappings", f"a {type(rules).__name__}", _PASTE)
    return rules


def _text(rule: Mapping[str, Any], name: str, path: str) -> str:
    return text(rule.get(name) or "", f"config.{path}.{name}")


def _texts(rule: Mapping[str, Any], name: str) -> tuple[str, ...]:
    found = rule.get(name) or []
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise ConfigError(f"config.{SELECTORS}.{name}", "a list of texts", f"a {type(found).__name__}", _PASTE)
    return tuple(found)
