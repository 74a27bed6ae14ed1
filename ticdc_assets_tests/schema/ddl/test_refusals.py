"""What is not understood in full is refused, hostile text soon and cheaply, and the error quotes no value."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ticdc_assets.errors import SchemaError
from ticdc_assets.schema.ddl.parser import parse
from ticdc_assets.schema.ddl.tokens import TEXT_CHARS_MAX
from ticdc_assets.schema.model import Default
from ticdc_assets_tests.schema.ddl.statements import default

REFUSED = [
    "CREATE TABLE t (a INT) AS SELECT 1",
    "CREATE TABLE t AS SELECT 1",
    "CREATE TABLE t (a HYPERCUBE)",
    "CREATE TABLE t (a INT WHATEVER)",
    "CREATE TABLE t (a INT) NEW_OPTION=3 AS SELECT 1",
    "CREATE TABLE t (a INT) NEW_OPTION SELECT 1",
    "CREATE TABLE t (a INT) IGNORE SELECT 1",
    "CREATE TABLE t (a INT) (SELECT 1)",
    "CREATE TABLE t (a INT) TABLE u",
    "CREATE TABLE t (a INT) VALUES ROW(1)",
    "CREATE TABLE t (a INT) WITH c AS (SELECT 1) SELECT * FROM c",
    "CREATE TABLE t (a INT) NEW_OPTION CHARACTER latin1",
    "CREATE TABLE t (a INT) PARTITION BY NEW_METHOD (a)",
    "CREATE TABLE t (a INT) 'text'",
    "CREATE TABLE t ()",
    "CREATE TABLE t (a INT,)",
    "CREATE TABLE t (a INT",
    "CREATE TABLE t (a INT DEFAULT)",
    "CREATE TABLE t (a INT DEFAULT other)",
    "CREATE WIDGET w",
    "ALTER TABLE t ADD COLUMN a INT,",
    "ALTER TABLE t ADD COLUMN a INT ADD COLUMN b INT",
    "ALTER TABLE t IMPORT TABLESPACE",
    "ALTER TABLE t CONVERT TO CHARACTER SET BINARY",
    "ALTER TABLE t FIRST PARTITION LESS THAN (3)",
    "ALTER TABLE t SPLIT MAXVALUE PARTITION LESS THAN (3)",
    "ALTER TABLE t FROBNICATE",
    "ALTER TABLE t DROP COLUMN a b",
    "FLASHBACK TABLE t TO TIMESTAMP '2024-01-01'",
    "FLASHBACK CLUSTER TO TIMESTAMP '2024-01-01'",
    "FLASHBACK DATABASE d",
    "IMPORT INTO t FROM 'x'",
    "DROP WIDGET w",
    "RENAME WIDGET a TO b",
    "TRUNCATE TABLE t u",
    "DROP TABLE ``",
    "DROP TABLE 't'",
    "DROP TABLE `t",
    "DROP TABLE t /* open",
    "DROP TABLE t /*!40101 open",
    "DROP TABLE t */",
    "ALTER TABLE t ALTER a SET DEFAULT 'open",
    "ALTER TABLE t ALTER a SET DEFAULT x'0g'",
    "DROP TABLE \x00",
]  # fmt: skip


@pytest.mark.parametrize("query", REFUSED)
def test_what_is_not_understood_in_full_is_refused(query):
    with pytest.raises(SchemaError):
        parse(query, "s")


def test_the_error_names_the_place_and_the_word_and_no_value():
    with pytest.raises(SchemaError) as caught:
        parse("ALTER TABLE t ALTER a SET DEFAULT 'secret' BOGUS", "s")

    assert "character 44" in str(caught.value)
    assert "the word BOGUS" in str(caught.value)
    with pytest.raises(SchemaError) as caught:
        parse("ALTER TABLE t ALTER a SET DEFAULT 1 'secret'", "s")

    assert "a string literal" in str(caught.value)
    assert "secret" not in str(caught.value)


MIB = 1024 * 1024
HOSTILE = {
    "open string": "ALTER TABLE t ALTER a SET DEFAULT '" + "''" * (MIB // 2),
    "open string of escapes": "ALTER TABLE t ALTER a SET DEFAULT '" + "\\'" * (MIB // 2),
    "open name": "DROP TABLE `" + "``" * (MIB // 2),
    "open comment": "/*" + "*" * MIB,
    "open comments": "/*! " * (MIB // 4),
    "deep parentheses": "CREATE TABLE t (a INT DEFAULT " + "(" * MIB,
    "deep parentheses closed": "CREATE TABLE t (a INT CHECK " + "(" * (MIB // 2) + ")" * (MIB // 2) + ") nonsense",
    "deep bounds": "CREATE TABLE t (a INT) PARTITION BY RANGE " + "(" * MIB,
    "long number": "ALTER TABLE t AUTO_INCREMENT=1, ADD a INT(" + "9" * MIB + ")",
    "many columns": "CREATE TABLE t (" + "a INT," * (MIB // 6) + ")",
    "many signs": "CREATE TABLE t (a INT DEFAULT " + "-" * (MIB // 2) + "x)",
    "many statements": "DROP TABLE t;" * (MIB // 13) + "DROP",
    "too long": " " * (TEXT_CHARS_MAX + 1),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_text_is_refused_in_a_few_seconds(text):
    started = time.process_time()
    with pytest.raises(SchemaError):
        parse(text, "s")

    assert time.process_time() - started < 10


def test_a_huge_exponent_costs_no_memory():
    assert Default("1e999999999") == default("INT DEFAULT 1e999999999")
    assert Default("0.00") == default("DECIMAL(5,2) DEFAULT 1e-999999999")


@given(st.text(st.sampled_from(list("`'\"\\()/*!T[]-#;,. \nax0_")), max_size=60))
def test_any_text_is_read_or_refused(text):
    for prefix in ("", "ALTER TABLE t ", "CREATE TABLE t ("):
        try:
            parse(prefix + text, "s")
        except SchemaError:
            continue
