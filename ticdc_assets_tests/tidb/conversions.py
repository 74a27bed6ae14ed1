"""Histories of one MODIFY each: every pair of some types, over values at the edges of the first."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from ticdc_assets.schema.ddl.mysql_types import parse_type
from ticdc_assets.tables.conversion.convert import converted_value
from ticdc_assets_tests.tidb.recording import History, Recorder
from ticdc_assets_tests.tidb.server import LOOSE, Tidb
from ticdc_assets_tests.tidb.statements import any_literal

TYPES = (
    *(
        "TINYINT",
        "TINYINT UNSIGNED",
        "SMALLINT",
        "MEDIUMINT UNSIGNED",
        "INT",
        "INT UNSIGNED",
        "BIGINT",
        "BIGINT UNSIGNED",
    ),
    *("BIT(1)", "BIT(20)", "BIT(64)", "YEAR", "FLOAT", "FLOAT UNSIGNED", "DOUBLE", "FLOAT(7,2)", "DOUBLE(10,3)"),
    *("DECIMAL(3,1)", "DECIMAL(10,0)", "DECIMAL(10,0) UNSIGNED", "DECIMAL(20,6)", "DECIMAL(38,10)", "DECIMAL(65,30)"),
    *("CHAR(3)", "VARCHAR(3)", "VARCHAR(40)", "TINYTEXT", "TEXT", "CHAR(20) CHARACTER SET LATIN1"),
    *("VARCHAR(40) CHARACTER SET GBK", "VARCHAR(20) CHARACTER SET ASCII", "CHAR(20) COLLATE utf8mb4_general_ci"),
    *("BINARY(4)", "VARBINARY(4)", "VARBINARY(40)", "TINYBLOB", "BLOB"),
    *("DATE", "DATETIME", "DATETIME(3)", "DATETIME(6)", "TIMESTAMP", "TIMESTAMP(6)", "TIME", "TIME(3)", "TIME(6)"),
    *("ENUM('a','B','c c')", "ENUM('10','d','B','a')", "SET('a','B','d')", "SET('d','B','a','x')", "JSON"),
)
VALUES = 26


def histories(tidb: Tidb, begin: int, seed: int) -> Iterator[History]:
    """One of each pair that the server takes and this project redoes; other pairs hold their table, whatever happens.

    `begin` is the place of the first old type.
    """
    for old in TYPES[begin:]:
        values = _values(tidb, Random(f"{seed} {old}"), old)
        for number, new in enumerate(TYPES):
            if new != old and converted_value("c", parse_type(old), parse_type(new)) is not None:
                yield from _of_pair(tidb, f"t{TYPES.index(old)}_{number}", old, new, values)


def _values(tidb: Tidb, random: Random, of: str) -> list[str]:
    """Literals that give different values of the type."""
    tidb.run(f"CREATE TABLE probe (rn INT PRIMARY KEY AUTO_INCREMENT, c {of})")
    literals = {any_literal(random, of): None for _ in range(VALUES * 5)}
    values: dict[str | None, str] = {}
    for literal in literals:
        if tidb.takes(f"INSERT IGNORE INTO probe (c) VALUES ({literal})"):
            [(stored,)] = tidb.run("SELECT HEX(c) FROM probe ORDER BY rn DESC LIMIT 1")
            values.setdefault(stored, literal)
    tidb.run("DROP TABLE probe")
    return list(values.values())[:VALUES]


def _of_pair(tidb: Tidb, table: str, old: str, new: str, values: list[str]) -> Iterator[History]:
    """The history of the values that the server converts: one that it refuses fails the whole statement."""
    recorder = Recorder(tidb, table)
    recorder.state(f"CREATE TABLE `{table}` (`rn` INT NOT NULL,`c` {old},PRIMARY KEY(`rn`))")
    rows = ",".join(f"({number},{value})" for number, value in enumerate(values, start=1))
    try:
        recorder.change([f"INSERT IGNORE INTO `{table}` VALUES {rows}"])
        taken = recorder.state(f"ALTER TABLE `{table}` MODIFY COLUMN `c` {new}")
    except UnicodeDecodeError:
        taken = False
    if taken:
        yield {"id": f"modify_{table}", "mode": LOOSE, "zone": "UTC", **recorder.history}
    elif len(values) > 3:
        half = len(values) // 2
        yield from _of_pair(tidb, f"{table}a", old, new, values[:half])
        yield from _of_pair(tidb, f"{table}b", old, new, values[half:])
