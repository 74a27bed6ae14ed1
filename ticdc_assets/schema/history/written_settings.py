"""The settings on which a table's written rows depend, as its changelog keeps them: the key and the time zone.

The key separates the changes of a row from those of others: it decides which change repeats another one, and which
update is a delete and an insert. So a changelog that was written with one key need not be whole with another one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass

from ticdc_assets.names.folding import fold
from ticdc_assets.schema.history.source_table import SourceTable
from ticdc_assets.schema.model import Kind, TableSchema


@dataclass(frozen=True, slots=True)
class WrittenSettings:
    """The settings of one table.

    key: its first key, of `keys`, `schema_files` or the stream; empty without one.
    named_key: the part of it that `keys` names.
    time_zone: the zone of its TIMESTAMP values; empty without such a column.
    by_arrival: whether its rows have no commit_ts.
    control: the namespace of the control tables, which have the records of its rows.
    """

    key: tuple[str, ...]
    named_key: tuple[str, ...]
    time_zone: str
    by_arrival: bool
    control: str

    @classmethod
    def of(cls, source_table: SourceTable, time_zone: str, by_arrival: bool, control: str) -> WrittenSettings:
        """The settings as they are now."""
        first = source_table.versions[0].table
        kinds = {column.type.kind for version in source_table.versions for column in version.table.columns}
        zone = time_zone if Kind.TIMESTAMP in kinds else ""
        return cls(_sorted(first.key), _sorted(first.named_key), zone, by_arrival, control)

    def to_json(self) -> str:
        """The text that the changelog and the records keep."""
        return json.dumps(asdict(self), ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> WrittenSettings:
        """Read the text of `to_json`."""
        whole = json.loads(text)
        return cls(**{**whole, "key": tuple(whole["key"]), "named_key": tuple(whole["named_key"])})

    def refusal_of(self, now: WrittenSettings) -> tuple[str, str]:
        """What was expected and found where the whole changefeed cannot go on with `now`; ("", "") where it can."""
        if self.control != now.control:
            return f"control tables in {self.control}, which have the records of its rows", now.control
        if self.by_arrival != now.by_arrival:
            stream = ("a stream with commit_ts", "one without")
            return stream[self.by_arrival], stream[now.by_arrival]
        return "", ""

    def change_to(self, now: WrittenSettings, has_moved_keys: Callable[[], bool]) -> str:
        """What keeps rows with these settings and rows with those of `now` from being in one changelog, as "expected
        ..., found ..."; "" where nothing does.

        Args:
            has_moved_keys: whether an update of the changelog changes the new key, or may change it.
        """
        if self.time_zone and now.time_zone and self.time_zone != now.time_zone:
            return f"expected time_zone {self.time_zone}, with which its rows were read, found {now.time_zone}"
        if (self.key, bool(self.named_key)) == (now.key, bool(now.named_key)):
            return ""
        if self.key and self.key != now.key:
            return f"expected the key ({', '.join(self.key)}), with which its rows were read, found {_shown(now.key)}"
        if now.key and has_moved_keys():
            return f"expected no change of its key ({', '.join(now.key)}) before `keys` named it, found updates of it"
        return ""


def fault_of_keys(table: TableSchema) -> str:
    """Why the columns that `keys` names cannot be the key of the table, as "expected ..., found ..."; "" where they
    can."""
    named, there = {fold(name): name for name in table.named_key}, {fold(column.name) for column in table.columns}
    absent = [name for folded, name in named.items() if folded not in there]
    if absent:
        return f"expected columns of the table in `keys`, found {', '.join(absent)}"
    filled = {fold(column.name) for column in table.columns if not column.nullable}
    unique = [{fold(name) for name in index.columns} for index in table.indexes if index.primary or index.unique]
    unique = [columns for columns in unique if columns <= filled]
    if not named or not table.own_key or any(columns <= named.keys() for columns in unique):
        return ""
    return (
        f"expected the key that the stream has, ({', '.join(table.own_key)}), or more columns, "
        f"found ({', '.join(table.named_key)}) in `keys`, which need not be unique"
    )


def _sorted(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(fold(name) for name in names))


def _shown(key: tuple[str, ...]) -> str:
    return f"({', '.join(key)})" if key else "none"
