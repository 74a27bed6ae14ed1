"""The rules for tables in a changefeed's configuration: `sink.dispatchers` and `sink.column-selectors`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ticdc_assets.config.model.sink import Dispatch
from ticdc_assets.config.ticdc.values import at, text
from ticdc_assets.errors import ConfigError
from ticdc_assets.names.table_filter import ColumnSelector, ColumnSelectors, TableFilter

DISPATCHERS: Final = "sink.dispatchers"
SELECTORS: Final = "sink.column-selectors"
_PASTE: Final = "Paste it as TiCDC has it."


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
