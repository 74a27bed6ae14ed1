"""Finds the true names of tables: in Avro schemas, TiCDC writes `_` for every character that Avro does not allow.

There are two sources. A topic keeps `.` and `-`, and a dispatch rule such as `tidb_{schema}_{table}` gives the position
of the names in it. DDL statements from `ddl_from` give tables whose sanitised name is that of the schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from ticdc_assets.names.encoding import sanitised
from ticdc_assets.names.folding import fold
from ticdc_assets.schema.model import TableName

_NOT_KAFKA: Final = re.compile(r"[^A-Za-z0-9._-]")
_PLACES: Final = re.compile(r"(.*)\{(schema|table)\}(.*)\{(schema|table)\}(.*)", re.DOTALL)


def topic_of(rule: str, name: TableName) -> str:
    """The topic of a table under a dispatch rule; `rule` is the rule's `topic`."""
    schema, table = (_NOT_KAFKA.sub("_", part) for part in name)
    return rule.replace("{schema}", schema).replace("{table}", table)


def name_in_topic(topic: str, written: TableName, rules: Iterable[str]) -> TableName:
    """The table that a schema names `written`, with what the topic adds; `rules` are the topics of dispatch rules."""
    found = {name for rule in rules for name in _read(topic, written, rule)}
    return found.pop() if len(found) == 1 else written


def _read(topic: str, written: TableName, rule: str) -> Iterable[TableName]:
    places = _PLACES.fullmatch(rule)
    if places is None or places[2] == places[4]:
        return
    before, first, between, _, after = places.groups()
    if len(topic) < len(before) + len(after) or not (topic.startswith(before) and topic.endswith(after)):
        return
    names = topic[len(before) : len(topic) - len(after)]
    for cut in range(1, len(names) - len(between)):
        if names.startswith(between, cut):
            pair = (names[:cut], names[cut + len(between) :])
            schema, table = pair if first == "schema" else pair[::-1]
            if (sanitised(schema), sanitised(table)) == written:
                yield schema, table


class Candidates:
    """Finds tables by their name in Avro schemas, ignoring case."""

    def __init__(self, names: Iterable[TableName]) -> None:
        self._by_avro_name: dict[TableName, list[TableName]] = {}
        for name in names:
            self._by_avro_name.setdefault(_folded(map(sanitised, name)), []).append(name)

    def meant(self, written: TableName, in_topic: TableName) -> Sequence[TableName]:
        """The tables whose sanitised name is `written`.

        If there are several, those that match the name in the topic are preferred.
        """
        meant = self._by_avro_name.get(_folded(written), [])
        if len(meant) < 2:
            return meant
        closer = [c for c in meant if _folded(_NOT_KAFKA.sub("_", part) for part in c) == _folded(in_topic)]
        return closer or meant


def _folded(name: Iterable[str]) -> TableName:
    schema, table = (fold(part) for part in name)
    return schema, table
