"""Histories of columns that are added: every type with defaults in many forms, and with none."""

# ruff: noqa: E501 (literals in lines)

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from random import Random

import pymysql

from ticdc_assets_tests.tidb.conversions import TYPES
from ticdc_assets_tests.tidb.recording import History, Recorder
from ticdc_assets_tests.tidb.server import LOOSE, Tidb
from ticdc_assets_tests.tidb.statements import any_literal, any_type

AT_ONCE = 20
TABLES = ("", "", " DEFAULT CHARACTER SET = UTF8MB4 DEFAULT COLLATE = UTF8MB4_GENERAL_CI",
          " DEFAULT CHARACTER SET = GBK", " DEFAULT CHARACTER SET = LATIN1", " DEFAULT COLLATE = BINARY")  # fmt: skip
SYNONYMS = ("BOOL", "INTEGER(7)", "CHAR", "BINARY", "TEXT(300)", "VECTOR(2)", "VECTOR", "DECIMAL", "FLOAT(30)", "BIT",
            "CHAR(4) CHARACTER SET BINARY", "SET('1','2')", "ENUM('2','1','')", "LONGBLOB", "MEDIUMTEXT", "YEAR(4)")  # fmt: skip


def histories(tidb: Tidb, count: int, seed: int) -> Iterator[History]:
    """Tables of one row, each with many columns that are added in one statement."""
    random = Random(seed)
    for number in range(count):
        table, option = f"t{number}", random.choice(TABLES)
        added = [definition for definition in map(str, _definitions(random)) if _takes(tidb, option, definition)]
        recorder = Recorder(tidb, table)
        recorder.state(f"CREATE TABLE `{table}` (`rn` INT NOT NULL,PRIMARY KEY(`rn`)){option}")
        recorder.change([f"INSERT INTO `{table}` VALUES (1)"])
        actions = [f"ADD COLUMN `c{place}` {definition}" for place, definition in enumerate(added)]
        with suppress(UnicodeDecodeError, pymysql.MySQLError):
            if recorder.state(f"ALTER TABLE `{table}` {', '.join(actions)}"):
                yield {"id": f"defaults_{seed}_{number}", "mode": LOOSE, "zone": "UTC", **recorder.history}


def _definitions(random: Random) -> Iterator[str]:
    for _ in range(2 * AT_ONCE):
        of = random.choice((any_type(random), *SYNONYMS)) if random.random() < 0.5 else random.choice(TYPES)
        default = "" if random.random() < 0.12 else f" DEFAULT {any_literal(random, of)}"
        yield f"{of}{random.choice(('', '', ' NOT NULL'))}{default}"


def _takes(tidb: Tidb, option: str, definition: str) -> bool:
    """Whether the server takes the column and can tell its default."""
    tidb.probes += 1
    table = f"probe{tidb.probes}"
    created = tidb.takes(f"CREATE TABLE `{table}` (`rn` INT,`c` {definition}){option}")
    return created and tidb.takes(f"INSERT IGNORE INTO `{table}` (rn) VALUES (1)") and tidb.tells(table)
