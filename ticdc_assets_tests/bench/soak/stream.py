"""A changefeed of many tables at a steady rate, flushed every few seconds, with statements."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ticdc_assets.tso import from_physical_ms
from ticdc_assets_tests.sources.storage.bucket import ID, NONE, Bucket

SCHEMA: Final = "soak"
FLUSH_S: Final = 5.0
_INT: Final = {"ColumnType": "INT", "ColumnPrecision": "11"}

Row = dict[str, int | None]


@dataclass
class _Table:
    """A table at the source, and its rows as they must be in the mirror."""

    name: str
    version: int
    columns: list[str] = field(default_factory=lambda: ["id", "v"])
    rows: dict[int, Row] = field(default_factory=dict)
    next_id: int = 1
    files: int = 0
    added: int = 0
    renamed: int = 0


class Stream:
    """Writes the bucket. The same seed gives the same changes at other times."""

    def __init__(self, root: Path, tables: int, seed: int = 1) -> None:
        self._bucket = Bucket(root, NONE, checkpoint=self._now())
        self._random = random.Random(seed)
        self._last = 0
        self.changes = 0
        self.statements = 0
        self.tables = [self._created(f"t{number:03}") for number in range(tables)]

    def flush(self, changes: int, statement: bool) -> int:
        """Write so many changes over all tables, a statement before those of one table, and a checkpoint above them,
        which is returned. The statement adds a column, drops one, empties the table or renames it."""
        share = max(1, changes // len(self.tables))
        altered = self._random.choice(self.tables) if statement else None
        for table in self.tables:
            if table is altered:
                self._random.choice(
                    (self._add_column, self._add_column, self._drop_column, self._truncate, self._rename)
                )(table)
            self._write(table, share)
            self.changes += share
        checkpoint = self._tso()
        self._bucket.checkpoint(checkpoint)
        return checkpoint

    def _created(self, name: str) -> _Table:
        table = _Table(name, self._tso())
        self._schema(table, f"CREATE TABLE `{name}` (`id` INT PRIMARY KEY, `v` INT)", 3)
        return table

    def _add_column(self, table: _Table) -> None:
        table.added += 1
        added = f"c{table.added}"
        table.columns.append(added)
        for row in table.rows.values():
            row[added] = None
        self._statement(table, f"ALTER TABLE `{table.name}` ADD COLUMN `{added}` INT", 5)

    def _drop_column(self, table: _Table) -> None:
        if len(table.columns) == len(("id", "v")):
            return self._add_column(table)
        dropped = table.columns.pop()
        for row in table.rows.values():
            del row[dropped]
        return self._statement(table, f"ALTER TABLE `{table.name}` DROP COLUMN `{dropped}`", 6)

    def _truncate(self, table: _Table) -> None:
        table.rows.clear()
        self._statement(table, f"TRUNCATE TABLE `{table.name}`", 11)

    def _rename(self, table: _Table) -> None:
        old, table.renamed = table.name, table.renamed + 1
        table.name = f"{old.partition('_')[0]}_{table.renamed}"
        self._statement(table, f"RENAME TABLE `{SCHEMA}`.`{old}` TO `{SCHEMA}`.`{table.name}`", 14)

    def _statement(self, table: _Table, query: str, type_: int) -> None:
        table.version, table.files = self._tso(), 0
        self._schema(table, query, type_)
        self.statements += 1

    def _schema(self, table: _Table, query: str, type_: int) -> None:
        columns: list[dict[str, Any]] = [ID, *({"ColumnName": name, **_INT} for name in table.columns[1:])]
        self._bucket.schema(SCHEMA, table.name, table.version, columns, query=query, type_=type_)

    def _write(self, table: _Table, count: int) -> None:
        lines = [self._change(table) for _ in range(count)]
        table.files += 1
        folder = f"{SCHEMA}/{table.name}/{table.version}"
        self._bucket.index(folder, table.files)
        self._bucket.data(folder, table.files, "".join(lines).encode())

    def _change(self, table: _Table) -> str:
        """Half inserts, then updates and deletes of random rows."""
        kind = self._random.random() if table.rows else 0.0
        if kind < 0.5:
            key, table.next_id = table.next_id, table.next_id + 1
        else:
            key = self._random.randrange(1, table.next_id)
        op = "I" if key not in table.rows else "D" if kind > 0.9 else "U"
        row: Row = {"id": key, **{name: self._random.randrange(1 << 30) for name in table.columns[1:]}}
        if op == "D":
            row = table.rows.pop(key)
        else:
            table.rows[key] = row
        values = ",".join("\\N" if row[name] is None else str(row[name]) for name in table.columns)
        return f'"{op}","{table.name}","{SCHEMA}",{self._tso()},{values}\r\n'

    def _now(self) -> int:
        return from_physical_ms(round(time.time() * 1000))

    def _tso(self) -> int:
        self._last = max(self._last + 1, self._now())
        return self._last
