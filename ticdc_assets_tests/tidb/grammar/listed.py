"""The statements of TiDB's grammar that change databases and tables, as `statements.sql` lists them by kind.

A line is a statement; `:` and `+` begin those that are run before it, statements and changes of rows. They stand for
all statements below, until others take their place. After the statement a row is written to each table, and one is
deleted, which tells a wrong state of the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql

from ticdc_assets_tests.tidb.recording import History
from ticdc_assets_tests.tidb.server import LOOSE, Snapshots, Tidb
from ticdc_assets_tests.tidb.workloads.features import PREPARED
from ticdc_assets_tests.tidb.workloads.recording import Recorder

FILE = Path(__file__).parent / "statements.sql"
NUMBER = 7
"""Of the row that is written after the statement."""
CHANGES = (f"INSERT IGNORE INTO `{{}}` (rn) VALUES ({NUMBER})", "DELETE FROM `{}` WHERE rn = 2")


@dataclass(frozen=True)
class Listed:
    """A statement with what is run before it: statements, and transactions as lists of statements."""

    kind: str
    sql: str
    before: tuple[str | list[str], ...]


def listed() -> Iterator[Listed]:
    """In the order of the file."""
    kind, before, is_open = "", (), False
    for line in FILE.read_text(encoding="utf-8").splitlines():
        mark, text = line[0], line.strip("#:+ ")
        match mark:
            case "#":
                kind = text
            case ":" | "+":
                part = text if mark == ":" else [text]
                before, is_open = (*(before if is_open else ()), part), True
                continue
            case _:
                yield Listed(kind, line, before)
        is_open = False


def histories(_: Tidb, count: int, seed: int) -> Iterator[History]:
    """What the server did at each statement, in a database of its own."""
    for number, statement in enumerate(listed()):
        yield {"id": f"g{number}", "mode": LOOSE, "zone": "UTC", **_lived(f"g{number}", statement)}


class _Asked(Tidb):
    """Knows the number of the error with which the server refused the last statement; "" where it took it."""

    refused = ""

    def takes(self, statement: str) -> bool:
        try:
            self.run(statement)
        except pymysql.MySQLError as error:
            self.refused = str(error.args[0])
        else:
            self.refused = ""
        return not self.refused


def _lived(database: str, statement: Listed) -> dict[str, Any]:
    """`steps` as a workload has them; `result` is "job", "none" for a statement without one, or an error's number."""
    tidb, snapshots = _Asked(database), Snapshots(database)
    for prepared in PREPARED:
        tidb.takes(prepared)
    recorder = Recorder(tidb, snapshots)
    for part in statement.before:
        if isinstance(part, list):
            recorder.transact(part)
            continue
        named = part.replace("{db}", f"`{database}`")
        assert recorder.execute(named) or named.startswith("USE"), part
    has_job = recorder.execute(statement.sql.replace("{db}", f"`{database}`"))
    result = "job" if has_job else tidb.refused or "none"
    if tidb.takes(f"USE `{database}`"):
        tables = [name for name, _ in tidb.run("SHOW FULL TABLES WHERE table_type = 'BASE TABLE'")]
        recorder.transact([change.format(table) for table in tables for change in CHANGES])
    tidb.close()
    snapshots.close()
    return {"kind": statement.kind, "sql": statement.sql, "result": result, "steps": recorder.steps}
