"""The true names behind those of Avro schemas, in which TiCDC writes `_` for every character Avro does not allow.

Two things know better. The topic: there, `.` and `-` are kept too, and a dispatch rule such as `tidb_{schema}_{table}`
says where the names are in it. And statements that were told elsewhere: a table whose sanitised name is the schema's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

_NOT_AVRO: Final = re.compile(r"[^A-Za-z0-9_]")
_NOT_KAFKA: Final = re.compile(r"[^A-Za-z0-9._-]")
_PLACES: Final = re.compile(r"(.*)\{(schema|table)\}(.*)\{(schema|table)\}(.*)", re.DOTALL)

Name = tuple[str, str]
"""A database and a table, as spelt."""


def sanitised(name: str) -> str:
    """A database, table or column as Avro schemas name it."""
    found = _NOT_AVRO.sub("_", name)
    return f"_{found}" if found[:1].isdigit() else found


def topic_of(rule: str, name: Name) -> str:
    """The topic that a dispatch rule's `topic` makes of a table's name."""
    schema, table = (_NOT_KAFKA.sub("_", part) for part in name)
    return rule.replace("{schema}", schema).replace("{table}", table)


def name_in_topic(topic: str, told: Name, rules: Iterable[str]) -> Name:
    """The table whose schema says `told`, as far as the topic tells more; `rules` are the topics of dispatch rules."""
    found = {name for rule in rules for name in _read(topic, told, rule)}
    return found.pop() if len(found) == 1 else told


def _read(topic: str, told: Name, rule: str) -> Iterable[Name]:
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
            if (sanitised(schema), sanitised(table)) == told:
                yield schema, table


class Candidates:
    """Tables, to be found by what Avro schemas call them, without regard to case."""

    def __init__(self, names: Iterable[Name]) -> None:
        self._by_told: dict[Name, list[Name]] = {}
        for name in names:
            self._by_told.setdefault(_folded(map(sanitised, name)), []).append(name)

    def meant(self, told: Name, in_topic: Name) -> Sequence[Name]:
        """Those that a schema's `told` may name.

        Tables that differ only in what Avro cannot say are told apart by the topic, where it can.
        """
        meant = self._by_told.get(_folded(told), [])
        if len(meant) < 2:
            return meant
        closer = [c for c in meant if _folded(_NOT_KAFKA.sub("_", part) for part in c) == _folded(in_topic)]
        return closer or meant


def _folded(name: Iterable[str]) -> Name:
    schema, table = (part.lower() for part in name)
    return schema, table
