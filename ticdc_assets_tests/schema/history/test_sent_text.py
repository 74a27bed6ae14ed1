"""Texts that TiCDC sends with backslashes: as TiDB restored them, or as the user typed them."""

from __future__ import annotations

import pytest

from ticdc_assets.errors import SchemaError
from ticdc_assets.schema.ddl import statements as ddl
from ticdc_assets.schema.ddl.defaults import LiteralDefault
from ticdc_assets.schema.history.sent_statements import parse_sent

INDEX_STATEMENTS = [
    "alter table a add fulltext index ft (v) with parser multilingual",
    r"/* DBeaver */ ALTER TABLE b ADD FULLTEXT INDEX ft (v) WITH PARSER standard COMMENT 'it\'s searched'",
    'alter table c\n  add fulltext index ft (v) comment "say \\"hi\\""',
    r"ALTER TABLE `t` ADD FULLTEXT INDEX `ft`(`v`) COMMENT 'it\'s'",
    r"ALTER TABLE `t` ADD FULLTEXT INDEX `ft`(`v`) COMMENT 'a\\'",
    "alter table t add fulltext (v) comment 'a\\'",
    r"create fulltext index if not exists ft on t (v) comment 'it\'s'",
    r"""CREATE HYBRID INDEX h ON t (a, v) PARAMETER '{"a": "it\'s"}'""",
    r"""alter table t add hybrid index h (a, v) parameter '{\"inverted\": {}}', comment = 'it\'s'""",
    r"create index i on t (v) comment 'it\'s'",
    r"alter table t add vector index v ((vec_cosine_distance(e))) using hnsw comment 'it\'s'",
    r"alter table t add columnar index c (a) using inverted comment 'it\'s'",
    r"alter table t add index i ((concat(v, '\'')))",
]


@pytest.mark.parametrize("text", INDEX_STATEMENTS)
def test_an_index_statement_is_read_however_its_text_is_escaped(text: str):
    (statement,) = parse_sent(text)

    assert isinstance(statement, ddl.AlterTable)
    assert all(isinstance(action, ddl.AddIndex | ddl.SetComment) for action in statement.actions)


def default_of(text: str) -> str | bytes | None:
    (statement,) = parse_sent(text)
    assert isinstance(statement, ddl.AlterTable)
    (added,) = (action for action in statement.actions if isinstance(action, ddl.AddColumns))
    default = added.columns[0][0].default
    assert isinstance(default, LiteralDefault)
    return default.value


RESTORED = [
    (r"ALTER TABLE `t` ADD COLUMN `c` VARCHAR(9) DEFAULT _UTF8MB4'a\\b'", "a\\b"),
    (r"ALTER TABLE `t` ADD COLUMN `c` VARCHAR(9) DEFAULT _UTF8MB4'x' COMMENT 'a\'", "x"),
    (r"alter table t add column c varchar(9) default 'it\'s', add fulltext index ft (c)", "it's"),
    (r"alter table t add column c varchar(9) default 'x' comment 'a\nb'", "x"),
]


@pytest.mark.parametrize(("text", "default"), RESTORED)
def test_a_default_is_what_every_reading_of_the_text_gives(text: str, default: str):
    assert default_of(text) == default


AMBIGUOUS = [
    r"alter table t add column c varchar(9) default 'a\nb'",
    r"alter table t add column c enum('a\nb', 'c')",
    r"ALTER TABLE `t` ADD COLUMN `c` VARCHAR(9) DEFAULT 'a\nb', ADD FULLTEXT INDEX `ft`(`c`)",
    "alter table t add column c varchar(9) default 'a\\', add column d varchar(9) default ', drop column x -- '",
]


@pytest.mark.parametrize("text", AMBIGUOUS)
def test_a_typed_text_whose_backslashes_change_a_value_in_one_sql_mode_alone_is_refused(text: str):
    with pytest.raises(SchemaError, match="backslashes"):
        parse_sent(text)


def test_a_text_that_no_reading_understands_is_refused_at_its_place():
    with pytest.raises(SchemaError, match="character 15"):
        parse_sent(r"alter table t frobnicate 'a\\'")
