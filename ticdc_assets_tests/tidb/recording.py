"""Histories of tables as a TiDB server lived them; `python -m ticdc_assets_tests.tidb` records them.

A history is one line of JSON: {mode, zone, steps}. A step is {sql} of a statement on the table, or {} where rows were
changed, with what was different behind it: {columns, unique, rows} as `Tidb` tells them.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pymysql

from ticdc_assets_tests.tidb.server import LOOSE, Tidb
from ticdc_assets_tests.tidb.statements import Table, any_alter, any_literal, any_row, any_table

History = dict[str, Any]


class Recorder:
    """Lives one table's history."""

    def __init__(self, tidb: Tidb, name: str) -> None:
        self._tidb = tidb
        self._name = name
        self.history: History = {"steps": []}
        self._state: dict[str, Any] = {}

    def state(self, statement: str) -> bool:
        """A statement on the table; whether the server took it, and the table is still there."""
        return self._tidb.takes(statement) and self._note({"sql": statement})

    def change(self, statements: list[str]) -> None:
        """Changes of rows; those that the server refuses are left out."""
        taken = [self._tidb.takes(statement) for statement in statements]
        if any(taken):
            self._note({})

    def _note(self, step: dict[str, Any]) -> bool:
        columns = self._tidb.columns(self._name)
        state = {
            "columns": columns,
            "unique": self._tidb.indexes(self._name),
            "rows": self._tidb.rows(self._name, columns),
        }
        step |= {key: value for key, value in state.items() if self._state.get(key) != value}
        self._state = state
        self.history["steps"].append(step)
        return True


def random_history(tidb: Tidb, random: Random, number: int) -> History | None:
    """A table of random columns under random statements; None where the server refuses it."""
    table, create = any_table(random, f"t{number}")
    recorder = Recorder(tidb, table.name)
    with suppress(UnicodeDecodeError, pymysql.MySQLError):  # bytes that are not text: recorded up to there
        _live(tidb, random, table, create, recorder)
    tidb.run(f"DROP TABLE IF EXISTS `{table.name}`")
    return recorder.history if recorder.history["steps"] else None


def _live(tidb: Tidb, random: Random, table: Table, create: str, recorder: Recorder) -> None:
    if not recorder.state(create):
        return
    rows = 0
    for _ in range(random.randint(2, 4)):
        inserts = [any_row(random, table, rows := rows + 1) for _ in range(random.randint(1, 4))]
        recorder.change(inserts + _changes(random, table, rows))
        for _ in range(4):
            statement, become = any_alter(random, table)
            if recorder.state(statement):
                _know(table, become)
                break
    recorder.change([any_row(random, table, rows + 1), f"DELETE FROM `{table.name}` WHERE rn = 1"])


def _changes(random: Random, table: Table, rows: int) -> list[str]:
    if not table.types or random.random() < 0.5:
        return []
    name = random.choice(list(table.types))
    value = any_literal(random, table.types[name])
    return [f"UPDATE IGNORE `{table.name}` SET `{name}` = {value} WHERE rn = {random.randint(1, rows)}"]


def _know(table: Table, become: dict[str, str | None]) -> None:
    for name, of in become.items():
        if of is None:
            table.types.pop(name, None)
        else:
            table.types[name] = of


def histories(tidb: Tidb, count: int, seed: int) -> Iterator[History]:
    """So many random tables."""
    random = Random(seed)
    number = made = 0
    while made < count:
        history = random_history(tidb, random, number := number + 1)
        if history is not None:
            made += 1
            yield {"id": f"random_{seed}_{number}", "mode": LOOSE, "zone": "UTC", **history}


def write(path: Path, found: Iterator[History]) -> int:
    """Write the histories, a line each; how many there are."""
    count = 0
    with lzma.open(path, "wt", encoding="utf-8", preset=9) as file:
        for history in found:
            file.write(json.dumps(history, ensure_ascii=False, separators=(",", ":")) + "\n")
            count += 1
    return count


def read(path: Path) -> list[History]:
    """The histories of a file."""
    with lzma.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]
