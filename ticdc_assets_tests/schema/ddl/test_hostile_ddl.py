"""Damaged statements: each is understood or refused with a SchemaError, and the lake can hold what they lead to."""

from __future__ import annotations

import re

import pytest

from ticdc_assets.errors import SchemaError
from ticdc_assets.schema.ddl.parser import parse
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.history.fold.events import fold
from ticdc_assets_tests.fixtures import CORPUS, read_jsonl
from ticdc_assets_tests.protocols.hostile.mutations import Mutant, Mutator, Seed, alone
from ticdc_assets_tests.protocols.hostile.seeds import lake_types
from ticdc_assets_tests.protocols.hostile.targets import INPUTS, NUMBER, bombard

SQL_TOKENS = re.compile(rb"`(?:[^`]|``)*`|'(?:[^']|'')*'|[A-Za-z_0-9.]+|[^\sA-Za-z_0-9]")
CHARS_MAX = 400
HOSTILE_SQL = [
    *b"` ' \" ; -- # /* */ /*! /*T! ( ) , . = @ \\ \\' \\\\ NULL NOT DEFAULT PRIMARY KEY UNIQUE AS VIRTUAL".split(),
    *b"TABLE COLUMN FIRST AFTER `id` TO LIKE SELECT PARTITION VALUES THAN MAXVALUE ENUM SET IF EXISTS".split(),
    *b"DECIMAL(99,99) DECIMAL(0) DECIMAL(38,39) BIT(0) BIT(65) CHAR(99999999999) TIME(9) FLOAT(54) YEAR(3)".split(),
    *b"VECTOR(0) DATETIME(7) DECIMAL(65,30) VARCHAR BLOB(18446744073709551615) INT(999) ENUM() SET('a','a')".split(),
    *b"18446744073709551616 -1 1e400 0x 0xZZ x'1' b'2' CURRENT_TIMESTAMP(99) _utf8mb4'x' N'x'".split(),
    *(b"9" * 5000, b"'" + b"9" * 5000 + b"'", b"-" * 500, b"1e999999999", b"'1e999999999'", b"0." + b"1" * 5000),
    *(b"b'" + b"1" * 5000 + b"'", b"0x" + b"1" * 5000, b"(" + b"9" * 5000 + b")", b"YEAR('2024-01-01')"),
    *(b"(" * 500, b")" * 500, b"(" * 500 + b")" * 500, b"/*!" * 500, b"`" + b"a" * 500 + b"`", b"''" * 500),
    *("``", "`a``b`", "`\0`", "`\u202e`", "'\ud7ff'", "`ſ`", "İ", "ａ", "\xa0", "\u2028"),
]


def seeds() -> list[Seed]:
    texts: dict[str, tuple[str, str]] = {}
    for log in sorted((CORPUS / "fixtures/logs").iterdir()):
        for event in read_jsonl(log / "events.jsonl"):
            if event["kind"] == "ddl" and len(event["query"]) <= CHARS_MAX:
                texts[event["query"]] = (event["schema"], event["table"])
    assert len(texts) > 50
    return [Seed((text.encode(),), alone, name) for text, name in texts.items()]


TOKENS = [token.encode() if isinstance(token, str) else token for token in HOSTILE_SQL]


def text_of(mutant: Mutant) -> str:
    # The decoders take UTF-8 alone, so no other text reaches a statement.
    return (mutant.value or b"").decode(errors="replace")


def parsed(mutant: Mutant) -> bool:
    try:
        return bool(parse(text_of(mutant), "shop"))
    except SchemaError:
        return False


BEFORE = (
    "CREATE TABLE `{}` (`id` INT NOT NULL,`v` DECIMAL(12,2) DEFAULT 1.5,`s` VARCHAR(20),`e` ENUM('a','b'),"
    "PRIMARY KEY(`id`)) PARTITION BY RANGE (`id`) (PARTITION `p0` VALUES LESS THAN (10))"
)


def folded(mutant: Mutant) -> bool:
    """After a table's creation; nothing leaves the fold, and a table that goes on can be held."""
    schema, table = mutant.seed.context
    events = [
        DdlEvent(1, schema, table or "t", BEFORE.format((table or "t").replace("`", "``"))),
        DdlEvent(2, schema, table, text_of(mutant)),
    ]
    source_tables = fold(events).source_tables
    for source_table in source_tables:
        for version in source_table.versions:
            lake_types(version.table)
    return any(source_table.versions[-1].from_ts == 2 for source_table in source_tables if source_table.versions)


def test_a_damaged_statement_is_understood_or_refused():
    outcome = bombard(parsed, Mutator(seeds(), NUMBER, TOKENS, SQL_TOKENS), INPUTS // 10)

    assert outcome.taken > outcome.inputs // 10


def test_a_damaged_statement_leaves_tables_that_the_lake_can_hold():
    outcome = bombard(folded, Mutator(seeds(), NUMBER, TOKENS, SQL_TOKENS), INPUTS // 40)

    assert outcome.taken > outcome.inputs // 50


@pytest.mark.parametrize("opening", ["(", "/*!", "/*T![x]", "CASE ", "NOT ", "- ", "`a`.", "'a' ", "ENUM('"])
def test_a_long_statement_takes_linear_time(opening):
    """Twenty thousand of anything are read or refused at once."""
    text = f"ALTER TABLE `t` ADD COLUMN `c` INT DEFAULT {opening * 20_000}"

    outcome = bombard(parsed, Mutator([Seed((text.encode(),), alone)], NUMBER, [b""], SQL_TOKENS), 2)

    assert outcome.inputs == 2


LONG = "9" * 5000
STRANGE = {
    "a number in hexadecimal of thousands of digits": f"ALTER TABLE `t` ADD COLUMN `c` INT DEFAULT 0x{'1' * 5000}",
    "a BIT of thousands of bits": f"ALTER TABLE `t` ADD COLUMN `c` BIT(8) DEFAULT b'{'1' * 40_000}'",
    "a YEAR of a digit that is no decimal one": "ALTER TABLE `t` ADD COLUMN `c` YEAR DEFAULT '²'",
    "a SET of a digit that is no decimal one": "ALTER TABLE `t` ADD COLUMN `c` SET('a') DEFAULT 0xC2B2",
    "an ENUM of a digit that is no decimal one": "ALTER TABLE `t` ADD COLUMN `c` ENUM('a') DEFAULT 0xC2B2",
    "a bound of thousands of digits": f"ALTER TABLE `t` ADD PARTITION (PARTITION `p1` VALUES LESS THAN ({LONG}))",
    "a bound that is a text of them": f"ALTER TABLE `t` ADD PARTITION (PARTITION `p1` VALUES LESS THAN ('{LONG}'))",
    "a partition dropped that has such a bound": (
        f"CREATE TABLE `u` (`id` INT NOT NULL) PARTITION BY RANGE (`id`) (PARTITION `p` VALUES LESS THAN ({LONG}));"
        "ALTER TABLE `u` DROP PARTITION `p`"
    ),
}


@pytest.mark.parametrize("what", STRANGE)
def test_a_strange_statement_stops_its_table_at_most(what):
    texts = [BEFORE.format("t"), *STRANGE[what].split(";")]
    table = "u" if "`u`" in texts[-1] else "t"

    source_tables = fold([DdlEvent(n, "shop", table if n else "t", text) for n, text in enumerate(texts)]).source_tables

    assert source_tables
    for source_table in source_tables:
        for version in source_table.versions:
            lake_types(version.table)
