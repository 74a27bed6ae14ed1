"""The schemas that the user's `schema_files` give."""

from __future__ import annotations

from pathlib import Path

import pytest

from ticdc_assets.errors import ConfigError
from ticdc_assets.notes import Note, NoteCode
from ticdc_assets.pipeline.commit_range import Hold, TableState, commit_ranges
from ticdc_assets.pipeline.user_schemas import known_of
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.history.fold.events import Known, fold
from ticdc_assets.schema.history.source_table import Stop
from ticdc_assets_tests.config.config_file import feed
from ticdc_assets_tests.schema.history.histories import GUESSED

T = "CREATE TABLE `t` (`id` INT NOT NULL PRIMARY KEY, `v` VARCHAR(9));\n"


def known(folder: Path, **files: str) -> Known:
    """The schemas in files of these names and contents; `__` stands for the dot between database and table."""
    for name, text in files.items():
        (folder / f"{name.replace('__', '.')}.sql").write_text(text, encoding="utf-8")
    return known_of(feed(folder, schema_files=[str(folder / "*.sql")]))


def columns(found: Known) -> dict[tuple[str, str], list[str]]:
    return {name: [column.name for column in table.columns] for name, table in found.tables.items()}


def test_the_database_of_a_dump_is_in_the_name_of_its_file(tmp_path: Path):
    """Dumpling writes `database.table-schema.sql`, without the database in the statement."""
    found = known(tmp_path, **{"Shop__a-schema": T, "shop__b.c-schema": T.replace("`t`", "`b.c`")})

    assert columns(found) == {("shop", "t"): ["id", "v"], ("shop", "b.c"): ["id", "v"]}
    assert found.tables["shop", "t"].schema == "Shop"


def test_the_database_of_another_file_is_the_first_part_of_its_name(tmp_path: Path):
    assert columns(known(tmp_path, shop=T, other__v2=T)) == {("shop", "t"): ["id", "v"], ("other", "t"): ["id", "v"]}


def test_a_statement_that_names_its_database_counts_wherever_it_is(tmp_path: Path):
    text = f"CREATE DATABASE `x`;\n{T.replace('`t`', '`X`.`T`')}{T}"

    assert columns(known(tmp_path, shop=text)) == {("x", "t"): ["id", "v"], ("shop", "t"): ["id", "v"]}


def test_texts_are_as_a_server_shows_them(tmp_path: Path):
    """SHOW CREATE TABLE escapes with backslashes, unlike the statements in a stream."""
    found = known(tmp_path, shop=T.replace("VARCHAR(9)", r"VARCHAR(9) DEFAULT 'a\nb'"))

    default = found.tables["shop", "t"].columns[1].default
    assert default is not None
    assert default.value == "a\nb"


def test_the_configured_keys_come_with_the_schemas(tmp_path: Path):
    found = known_of(feed(tmp_path, keys={"shop.log": ["at"]}))

    assert (found.tables, found.key_of("shop", "log"), found.key_of("shop", "t")) == ({}, ("at",), None)


def test_a_file_that_is_no_dump_of_schemas_is_named_with_its_fault(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"schema_files, shop\.sql: expected CREATE TABLE statements"):
        known(tmp_path, shop="CREATE WIDGET `t` (`id` INT);")
    (tmp_path / "shop.sql").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="found UnicodeDecodeError"):
        known(tmp_path)


def test_a_table_whose_text_is_not_understood_is_named_with_its_file_and_the_others_are_described(tmp_path: Path):
    broken = "CREATE TABLE IF NOT EXISTS `x` (`id` NO SUCH TYPE);\n"

    found = known(tmp_path, shop=T + broken, **{"shop__y-schema": "CREATE TABLE `y` (`id` 'open"})

    assert columns(found) == {("shop", "t"): ["id", "v"]}
    assert list(found.not_understood) == [("shop", "x"), ("shop", "y")]
    assert [why.split(": ")[0] for why in found.not_understood.values()] == [
        "schema_files, shop.sql",
        "schema_files, shop.y-schema.sql",
    ]


def test_a_database_whose_name_dumpling_encodes_has_its_name(tmp_path: Path):
    """In names of files Dumpling encodes what a file system or its own patterns may not take."""
    found = known(tmp_path, **{"my%2Edb__a-schema": T, "a%25b%2Dschema__t-schema": T})

    assert columns(found) == {("my.db", "t"): ["id", "v"], ("a%b-schema", "t"): ["id", "v"]}


def test_two_files_that_describe_a_table_in_different_ways_are_refused(tmp_path: Path):
    for name, text in (("1", T), ("2", T), ("3", T.replace("VARCHAR(9)", "INT"))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "shop.t-schema.sql").write_text(text)

    assert columns(known_of(feed(tmp_path, schema_files=["1/*.sql", "2/*.sql"]))) == {("shop", "t"): ["id", "v"]}
    with pytest.raises(
        ConfigError, match=r"one definition of shop\.t, found different ones: those of .*1/.* and of .*3/"
    ):
        known_of(feed(tmp_path, schema_files=["1/*.sql", "2/*.sql", "3/*.sql"]))


def test_a_table_whose_text_in_schema_files_is_not_understood_waits_unless_the_stream_creates_it():
    known = Known(not_understood={("shop", "t"): "schema_files, shop.t-schema.sql: why"})

    (older,) = fold([DdlEvent(20, "shop", "t", "", GUESSED)], known).source_tables
    (made,) = fold([DdlEvent(10, "shop", "t", T)], known).source_tables

    assert older.stop == Stop(0, "schema_files, shop.t-schema.sql: why", waits_for_schema=True)
    note = Note(NoteCode.NO_SCHEMA, "schema_files, shop.t-schema.sql: why")
    assert commit_ranges([older], {}, 30, {})[older.id].hold == Hold(TableState.WAITING, note)
    assert made.stop is None
