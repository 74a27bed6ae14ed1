"""A TiDB server that tests ask: TICDC_ASSETS_TIDB names one (host:port, user root without a password)."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

import pymysql

SERVER = os.environ.get("TICDC_ASSETS_TIDB", "")
LOOSE = "NO_BACKSLASH_ESCAPES"
"""The sql_mode of recordings: a restored text has strings without escapes, and values are cut, not refused."""

Row = tuple[str | None, ...]


class Session:
    """A connection that reads one database."""

    def __init__(self, database: str, zone: str, mode: str) -> None:
        host, _, port = SERVER.partition(":")
        of = {"host": host, "port": int(port or 4000), "user": "root", "charset": "utf8mb4"}
        # Values come as the text that the server sends: no converter of the driver stands between.
        self._connection = pymysql.connect(**of, autocommit=True, conv={}, use_unicode=False)  # type: ignore[arg-type]
        self.database = database
        self.run(f"SET SESSION sql_mode = '{mode}', time_zone = '{zone}'")

    def run(self, statement: str) -> list[Row]:
        """Run a statement; the rows that it gives. pymysql.MySQLError where the server refuses it."""
        with self._connection.cursor() as cursor:
            cursor.execute(statement)
            return [tuple(map(_text, row)) for row in cursor.fetchall() or ()]

    def takes(self, statement: str) -> bool:
        """Run a statement; whether the server took it."""
        try:
            self.run(statement)
        except pymysql.MySQLError:
            return False
        return True

    def close(self) -> None:
        self._connection.close()

    # -- what a table is ----------------------------------------------------------------------------------------------

    def columns(self, table: str) -> list[list[str | None]]:
        """Name, type, character set, YES where NULL may be, and what else there is, in the table's order."""
        found = self.run(
            "SELECT column_name, column_type, character_set_name, is_nullable, extra FROM information_schema.columns "
            f"WHERE table_schema = '{self.database}' AND table_name = '{table}' ORDER BY ordinal_position"
        )
        return [list(row) for row in found]

    def indexes(self, table: str) -> list[list[Any]]:
        """Name and columns of the unique indexes, in the order in which the server lists them."""
        found: dict[str, list[str]] = {}
        for row in self.run(f"SHOW INDEX FROM `{table}`"):
            if row[1] == "0":
                found.setdefault(str(row[2]), []).append(str(row[4]))
        return [[name, columns] for name, columns in found.items()]

    def rows(self, table: str, columns: Sequence[Sequence[str | None]]) -> list[list[str | None]]:
        """The rows in the order of `rn`, else of the first column; bytes as hexadecimal digits, BIT as a number."""
        selected = ", ".join(_selected(str(name), str(of)) for name, of, *_ in columns)
        by = "rn" if any(name == "rn" for name, *_ in columns) else "1"
        return [list(row) for row in self.run(f"SELECT {selected} FROM `{table}` ORDER BY {by}")]

    def tells(self, table: str) -> bool:
        """Whether the table's rows can be read: a loose sql_mode lets bytes in that are no text, and other vectors."""
        try:
            self.rows(table, self.columns(table))
        except (UnicodeDecodeError, pymysql.MySQLError):
            return False
        return True


class Tidb(Session):
    """A session with a database of its own, which is empty at first and dropped in the end.

    `probes` counts the tables that were made to see what the server takes.
    """

    def __init__(self, database: str, zone: str = "+00:00", mode: str = LOOSE) -> None:
        super().__init__(database, zone, mode)
        self.probes = 0
        self.run(f"DROP DATABASE IF EXISTS `{database}`")
        self.run(f"CREATE DATABASE `{database}`")
        self.run(f"USE `{database}`")

    def close(self) -> None:
        self.run(f"DROP DATABASE IF EXISTS `{self.database}`")
        super().close()

    def last_commit_ts(self) -> int:
        """The commit_ts of this session's last transaction; 0 where it wrote nothing."""
        info = json.loads(self.run("SELECT @@tidb_last_txn_info")[0][0] or "{}")
        return int(info.get("commit_ts", 0))

    def last_job(self) -> int:
        """The number of the last DDL job that has ended, of any session."""
        [(number,)] = self.run("SELECT MAX(job_id) FROM mysql.tidb_ddl_history")
        return int(number or 0)

    def jobs(self, after: int) -> list[dict[str, Any]]:
        """The jobs of this database behind the one of that number, as TiDB keeps them: oldest first."""
        found = self.run(f"SELECT job_meta FROM mysql.tidb_ddl_history WHERE job_id > {after} ORDER BY job_id")
        jobs = [json.loads(meta or "{}") for (meta,) in found]
        return [job for job in jobs if job["schema_name"].lower() == self.database.lower()]


class Snapshots(Session):
    """A session that reads a database as it was, in UTC."""

    def __init__(self, database: str) -> None:
        super().__init__(database, "+00:00", LOOSE)
        # The embedded store does not collect garbage, and yet asks for this before a read of the past.
        self.run("INSERT IGNORE INTO mysql.tidb VALUES ('tikv_gc_safe_point', '20200101-00:00:00.000 +0000', '')")
        if "unistore" in str(self.run("SELECT tidb_version()")):
            # It removes the rows of dropped tables at once, and stops where it cannot read which. A cluster keeps them
            # until its garbage collection, so that RECOVER finds them.
            self.run("INSERT IGNORE INTO mysql.gc_delete_range VALUES (0, 0, 'no key', 'no key', 0)")

    def tables_at(self, ts: int) -> dict[str, dict[str, Any]]:
        """The tables at a TSO, by name: their columns, unique indexes and rows."""
        self.run(f"SET SESSION tidb_snapshot = '{ts}'")
        if not self.takes(f"USE `{self.database}`"):
            return {}  # the database is not there
        found = {}
        for name, _ in self.run("SHOW FULL TABLES WHERE table_type = 'BASE TABLE'"):
            columns = self.columns(str(name))
            rows = self.rows(str(name), columns)
            found[str(name)] = {"columns": columns, "unique": self.indexes(str(name)), "rows": rows}
        return found


def _text(cell: str | bytes | None) -> str | None:
    """UnicodeDecodeError where a text column holds other bytes, as it may in a loose sql_mode."""
    return cell.decode("utf-8") if isinstance(cell, bytes) else cell


def _selected(name: str, of: str) -> str:
    kind, escaped = of.partition("(")[0].partition(" ")[0], name.replace("`", "``")
    quoted = f"`{escaped}`"
    if kind in ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"):
        return f"HEX({quoted})"
    if kind == "bit":
        return f"CAST({quoted} AS UNSIGNED)"
    return f"{quoted} + 0E0" if kind == "float" else quoted  # a FLOAT prints with six digits only
