"""Records where a real TiDB puts rows: `python -m ticdc_assets_tests.tables.mirror.record_partitions HOST PORT`.

Writes `placed_rows.json`: of each table its columns, its partitioning, its rows as text, and the numbers of the rows in
each partition. TiDB decides; the tests hold the conditions of `tables.mirror.partition_conditions` against it.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pymysql

RECORDED: Final = Path(__file__).parent / "placed_rows.json"
ROWS: Final = 60
_TEXTS: Final = ["", " ", "a", "a ", "A", "ab\t", "ä", "漢字", "zz  ", "m"]
_EDGES: Final = {
    "TINYINT": [-128, 127], "INT": [-(1 << 31), (1 << 31) - 1], "INT UNSIGNED": [(1 << 32) - 1],
    "BIGINT": [-(1 << 63), (1 << 63) - 1], "BIGINT UNSIGNED": [(1 << 64) - 1, 1 << 63, (1 << 63) - 1],
}  # fmt: skip

TABLES: Final = [
    *((f"a {kind}", f"HASH (a) PARTITIONS {n}") for kind in _EDGES for n in (1, 3, 4)),
    ("a YEAR", "HASH (a) PARTITIONS 3"),
    ("a INT, b INT", "HASH (a * 2 - b) PARTITIONS 5"),
    ("a INT, b INT", "HASH (-a DIV 7 + ABS(b) % 5) PARTITIONS 4"),
    ("a INT, b INT", "HASH ((a + b) * -3 MOD 11) PARTITIONS 7"),
    ("a INT, b INT", "HASH (MOD(a, b)) PARTITIONS 3"),
    ("a INT, b INT", "HASH (FLOOR(a) - CEILING(b)) PARTITIONS 3"),
    *((f"a {kind}", f"HASH ({function}(a)) PARTITIONS 4") for kind in ("DATE", "DATETIME(3)") for function in (
        "YEAR", "MONTH", "QUARTER", "DAY", "DAYOFMONTH", "DAYOFYEAR", "DAYOFWEEK", "WEEKDAY", "TO_DAYS")),
    *(("a DATETIME", f"HASH ({function}(a)) PARTITIONS 3") for function in ("HOUR", "MINUTE", "SECOND")),
    ("a DATE NOT NULL, b DATETIME NOT NULL", "HASH (DATEDIFF(a, b)) PARTITIONS 3"),
    ("a DATE NOT NULL", "HASH (YEAR(a) * 12 + MONTH(a)) PARTITIONS 5"),
    ("a TIMESTAMP", "HASH (UNIX_TIMESTAMP(a)) PARTITIONS 5"),
    ("a INT", "HASH (a) (PARTITION x, PARTITION Y, PARTITION z)"),
    *((f"a {kind}", "KEY (a) PARTITIONS 5") for kind in (
        *_EDGES, "YEAR", "VARCHAR(9) COLLATE utf8mb4_bin", "CHAR(9) COLLATE utf8mb4_bin", "VARBINARY(9)",
        "VARCHAR(9) COLLATE utf8mb4_0900_bin", "DATE NOT NULL", "DATETIME NOT NULL", "DATETIME(3) NOT NULL")),
    ("a INT, b VARCHAR(9) COLLATE utf8mb4_bin, PRIMARY KEY (b, a)", "KEY () PARTITIONS 4"),
    ("a INT, b VARCHAR(9) COLLATE utf8mb4_bin", "LINEAR KEY ALGORITHM = 2 (a, b) PARTITIONS 4"),
    ("a INT, b INT", "RANGE (a + b) (PARTITION p0 VALUES LESS THAN (-10), PARTITION p1 VALUES LESS THAN (7), "
     "PARTITION p2 VALUES LESS THAN MAXVALUE)"),
    ("a DATE", "RANGE (QUARTER(a)) (PARTITION p0 VALUES LESS THAN (2), PARTITION p1 VALUES LESS THAN MAXVALUE)"),
    ("a INT", "LIST (a % 3) (PARTITION p0 VALUES IN (0, NULL), PARTITION p1 VALUES IN (1, -1), PARTITION p2 DEFAULT)"),
    ("a TIMESTAMP", "RANGE (UNIX_TIMESTAMP(a)) (PARTITION p0 VALUES LESS THAN (UNIX_TIMESTAMP('2010-01-01 00:00:00')), "
     "PARTITION p1 VALUES LESS THAN MAXVALUE)"),
]  # fmt: skip


def main(host: str, port: int) -> None:
    """Ask the server, and write what it says."""
    random.seed(1)
    connection = pymysql.connect(host=host, port=port, user="root", autocommit=True)
    with connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+08:00'")
        cursor.execute("DROP DATABASE IF EXISTS placed")
        cursor.execute("CREATE DATABASE placed")
        cursor.execute("USE placed")
        placed = [_placed(cursor, n, columns, cut) for n, (columns, cut) in enumerate(TABLES)]
    RECORDED.write_text("[\n" + ",\n".join(json.dumps(p, ensure_ascii=False) for p in placed) + "\n]\n")


def _placed(cursor: Any, number: int, columns: str, cut: str) -> dict[str, Any]:
    cursor.execute(f"CREATE TABLE t{number} (n INT, {columns}) PARTITION BY {cut}")
    kinds = [part.strip() for part in columns.partition(", PRIMARY")[0].split(", ")]
    rows: list[list[str | None]] = []
    while len(rows) < ROWS:
        row = [_value(kind, "PRIMARY" in columns) for kind in kinds]
        try:
            cursor.execute(f"INSERT INTO t{number} VALUES ({len(rows)}, {', '.join(['%s'] * len(row))})", row)
        except pymysql.Error:
            continue  # a result out of range, a duplicate
        rows.append(row)
    return {"columns": columns, "cut": cut, "rows": rows, "partitions": dict(_partitions(cursor, number))}


def _partitions(cursor: Any, number: int) -> Iterator[tuple[str, list[int]]]:
    cursor.execute(
        "SELECT partition_name FROM information_schema.partitions WHERE table_schema = 'placed' "
        f"AND table_name = 't{number}' ORDER BY partition_ordinal_position"
    )
    for (name,) in cursor.fetchall():
        cursor.execute(f"SELECT n FROM t{number} PARTITION (`{name}`) ORDER BY n")
        yield name, [n for (n,) in cursor.fetchall()]


def _value(declared: str, in_key: bool) -> str | None:
    kind = declared.partition(" ")[2].replace(" NOT NULL", "").partition(" COLLATE")[0]
    if not in_key and "NOT NULL" not in declared and random.random() < 0.1:
        return None
    if "INT" in kind:
        least = 0 if "UNSIGNED" in kind else -100
        return str(random.choice([*_EDGES[kind], *(random.randint(least, 100) for _ in range(8))]))
    if kind == "YEAR":
        return str(random.randint(1901, 2155))
    if "CHAR" in kind or "BINARY" in kind:
        return random.choice(_TEXTS)
    day = f"{random.randint(1980, 2030):04}-{random.randint(1, 12):02}-{random.randint(1, 28):02}"
    fraction = f".{random.randint(0, 999):03}" if "(3)" in kind else ""
    time = f" {random.randint(0, 23):02}:{random.randint(0, 59):02}:{random.randint(0, 59):02}{fraction}"
    return day if kind == "DATE" else day + time


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
