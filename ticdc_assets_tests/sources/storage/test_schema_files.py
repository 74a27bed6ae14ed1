"""Schema files: their content, their faults, and the checksum in their names."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import pytest

from ticdc_assets.errors import NotYetError, SchemaError
from ticdc_assets.protocols.storage.schema_file import SchemaFile, checksums, parse_schema_file
from ticdc_assets.schema.model import Default, Kind, MySqlType
from ticdc_assets_tests.fixtures import Workload, workloads
from ticdc_assets_tests.sources.storage.bucket import ID, NAME, schema_document

STORAGE = workloads("storage-")
PATH = "shop/t/meta/schema_100_0000000000.json"


def parse(column: dict, path: str = PATH) -> SchemaFile:
    return parse_schema_file(schema_document("shop", "t", 100, [{"ColumnName": "c", **column}]), path)


def type_of(**column: str) -> MySqlType:
    return parse({f"Column{name}": value for name, value in column.items()}).columns[0].type


@pytest.mark.parametrize("workload", STORAGE, ids=lambda w: w.name)
def test_the_checksum_of_every_real_schema_file_is_the_one_in_its_name(workload: Workload) -> None:
    data = workload.root / "data"
    files = [parsed(data, path) for path in sorted(data.rglob("schema_*.json"))]

    assert files
    assert all(file.checksum_ok for file in files)


@pytest.mark.parametrize("workload", STORAGE, ids=lambda w: w.name)
def test_the_last_schema_file_of_a_table_has_the_columns_and_key_of_the_truth(workload: Workload) -> None:
    data = workload.root / "data"
    files = [parsed(data, path) for path in data.rglob("schema_*.json")]
    compared = 0
    for line in (line for line in workload.truth if line["final"]):
        of_table = [f for f in files if (f.schema, f.table) == (line["schema"], line["table"])]
        if not of_table:
            assert not line["rows"]  # a table from before the changefeed that nobody touched
            continue
        shape = max(of_table, key=lambda file: file.version).to_ddl_event().after
        assert shape is not None
        assert [c.name for c in shape.columns] == [column[0] for column in line["columns"]]
        # files do not tell unique keys
        assert set(shape.key) in ({*line["key"]}, set())
        assert [c.nullable for c in shape.columns] == [bool(column[2]) for column in line["columns"]]
        for column, (_, declared, *_) in zip(shape.columns, line["columns"], strict=True):
            assert declared.upper().startswith(column.type.kind.value)
            assert column.type.unsigned == ("UNSIGNED" in declared.upper())
        compared += 1

    assert compared


def parsed(data: Path, path: Path) -> SchemaFile:
    return parse_schema_file(path.read_bytes(), path.relative_to(data).as_posix())


def test_a_statement_becomes_a_ddl_event_at_its_version() -> None:
    event = parse_schema_file(schema_document("shop", "t", 100, [ID, NAME], "CREATE TABLE t"), PATH).to_ddl_event()

    assert (event.commit_ts, event.hints.version, event.query, event.where) == (100, 100, "CREATE TABLE t", PATH)
    assert (event.schema, event.table, event.hints.old_name) == ("shop", "t", None)
    assert event.after is not None
    assert event.after.key == ("id",)
    assert [c.nullable for c in event.after.columns] == [False, True]
    assert [(i.name, i.columns, i.primary, i.unique) for i in event.after.indexes] == [("PRIMARY", ("id",), True, True)]


def test_hidden_columns_of_indexes_over_expressions_are_in_the_checksum_and_no_columns() -> None:
    listed = [ID, NAME, {"ColumnName": "_V$_lower_name_0", "ColumnType": "VARCHAR", "ColumnPrecision": "200"}]
    path = f"shop/t/meta/schema_100_{next(checksums('shop', 't', listed)):010d}.json"

    file = parse_schema_file(schema_document("shop", "t", 100, listed), path)

    assert file.checksum_ok
    assert ([c.name for c in file.columns], file.key) == (["id", "name"], ("id",))


@pytest.mark.parametrize("columns", [None, []])
def test_a_databases_statement_has_no_columns(columns: list | None) -> None:
    file = parse_schema_file(schema_document("shop", "", 100, columns, "CREATE DATABASE `shop`", 1), "x")

    assert (file.table, file.to_ddl_event().after) == ("", None)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ({"Type": "INT", "Precision": "11"}, MySqlType(Kind.INT, 11)),
        ({"Type": "INT UNSIGNED", "Precision": "10"}, MySqlType(Kind.INT, 10, unsigned=True)),
        ({"Type": "DECIMAL UNSIGNED", "Precision": "10", "Scale": "2"}, MySqlType(Kind.DECIMAL, 10, 2, unsigned=True)),
        ({"Type": "DECIMAL", "Precision": "10", "Scale": "0"}, MySqlType(Kind.DECIMAL, 10, 0)),
        ({"Type": "DECIMAL"}, MySqlType(Kind.DECIMAL, 10, 0)),
        ({"Type": "FLOAT", "Precision": "12"}, MySqlType(Kind.FLOAT)),
        ({"Type": "DOUBLE", "Precision": "7", "Scale": "3"}, MySqlType(Kind.DOUBLE, 7, 3)),
        ({"Type": "VARCHAR", "Precision": "200"}, MySqlType(Kind.VARCHAR, 200)),
        ({"Type": "CHAR", "Length": "20"}, MySqlType(Kind.CHAR, 20)),
        ({"Type": "VAR_STRING", "Precision": "5"}, MySqlType(Kind.VARCHAR, 5)),
        ({"Type": "TEXT", "Precision": "65535"}, MySqlType(Kind.TEXT)),
        ({"Type": "BINARY", "Precision": "8"}, MySqlType(Kind.BINARY, 8, charset="binary")),
        ({"Type": "LONGBLOB", "Precision": "4294967295"}, MySqlType(Kind.LONGBLOB, charset="binary")),
        ({"Type": "BIT UNSIGNED", "Precision": "64"}, MySqlType(Kind.BIT, 64)),
        ({"Type": "YEAR UNSIGNED", "Precision": "4"}, MySqlType(Kind.YEAR)),
        ({"Type": "DATETIME", "Scale": "3"}, MySqlType(Kind.DATETIME, 3)),
        ({"Type": "TIMESTAMP"}, MySqlType(Kind.TIMESTAMP)),
        ({"Type": "TIME", "Scale": "6"}, MySqlType(Kind.TIME, 6)),
        ({"Type": "ENUM"}, MySqlType(Kind.ENUM)),
        ({"Type": "SET", "Elems": ["a", "b,c"]}, MySqlType(Kind.SET, elements=("a", "b,c"))),
        ({"Type": "JSON"}, MySqlType(Kind.JSON)),
        ({"Type": "VECTOR"}, MySqlType(Kind.VECTOR)),
        ({"Type": "INT UNSIGNED ZEROFILL", "Precision": "5"}, MySqlType(Kind.INT, 5, unsigned=True)),
        ({"Type": "int", "Precision": 11}, MySqlType(Kind.INT, 11)),
        ({"Type": "INTEGER", "Precision": ""}, MySqlType(Kind.INT)),
        ({"Type": "CHAR", "Precision": "-1", "Length": "20"}, MySqlType(Kind.CHAR, 20)),
        ({"Type": "CHAR", "Precision": "0", "Length": "20"}, MySqlType(Kind.CHAR, 0)),
        ({"Type": "NUMERIC", "Precision": "65", "Scale": "30"}, MySqlType(Kind.DECIMAL, 65, 30)),
        ({"Type": "DECIMAL", "Precision": "5", "Scale": "5"}, MySqlType(Kind.DECIMAL, 5, 5)),
        ({"Type": "DOUBLE", "Precision": "7", "Scale": "0"}, MySqlType(Kind.DOUBLE)),
        ({"Type": "DATETIME", "Precision": "19", "Scale": "0"}, MySqlType(Kind.DATETIME)),
        ({"Type": "DATE", "Precision": "10"}, MySqlType(Kind.DATE)),
        ({"Type": "BIT", "Precision": "00000000000000000064"}, MySqlType(Kind.BIT, 64)),
    ],
)
def test_precision_and_scale_mean_what_they_mean_in_mysql(column: dict, expected: MySqlType) -> None:
    assert type_of(**column) == expected


@pytest.mark.parametrize(
    ("type_", "raw", "expected"),
    [
        ("INT", "15", Default("15")),
        ("INT", 15, Default("15")),
        ("DOUBLE", 1.50, Default("1.5")),
        ("VARCHAR", "", Default("")),
        ("VARCHAR", "CURRENT_TIMESTAMP", Default("CURRENT_TIMESTAMP")),
        ("DATETIME", "CURRENT_TIMESTAMP", Default(expression="CURRENT_TIMESTAMP")),
        ("TIMESTAMP", "CURRENT_TIMESTAMP(3)", Default(expression="CURRENT_TIMESTAMP(3)")),
        ("TIMESTAMP", "2024-03-11 08:51:01", Default("2024-03-11 08:51:01")),
        ("BINARY", "ab", Default(b"ab")),
        ("BIT UNSIGNED", "\x02", Default("2")),
        ("BIT UNSIGNED", "\x02\ufffd", None),
        ("INT", None, None),
        ("BIT UNSIGNED", 5, Default("5")),
        ("BIT", "\x01\x02", Default("258")),
        ("TINYINT", True, Default("1")),
        ("TINYINT", False, Default("0")),
        ("DATE", "curdate()", Default(expression="curdate()")),
        ("DATE", "NOW(10)", Default("NOW(10)")),
        ("TIME", "NOW()", Default("NOW()")),
        ("BINARY", "\ufffd", None),
        ("VARCHAR", "\ufffd", Default("\ufffd")),
    ],
)
def test_defaults_are_kept_as_far_as_json_could_carry_them(type_: str, raw: object, expected: Default | None) -> None:
    assert parse({"ColumnType": type_, "ColumnDefault": raw}).columns[0].default == expected


def test_column_ids_are_read_where_they_are_written() -> None:
    assert parse({"ColumnType": "INT", "ColumnId": "7"}).columns[0].column_id == 7
    assert parse({"ColumnType": "INT"}).columns[0].column_id is None


def test_a_file_cut_at_any_byte_is_awaited() -> None:
    columns = [
        ID,
        NAME | {"ColumnDefault": 'é\u2028 "}{" \\'},
        {"ColumnName": "b", "ColumnType": "BIT", "ColumnDefault": None},
    ]
    whole = schema_document("shop", "t", 100, columns, "CREATE TABLE `t` {}").replace(b"\\u00e9", "é".encode())

    assert parse_schema_file(whole, PATH).table == "t"
    for cut in range(len(whole)):
        with pytest.raises(NotYetError):
            parse_schema_file(whole[:cut], PATH)


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: b"\xff" + d,
        lambda d: d.replace(b'"Table"', b'Table"', 1),
        lambda d: d + b"{}",
        lambda d: b"[]",
        lambda d: b"[" * 100_000,
        lambda d: d.replace(b'"TableVersion": 100', b'"TableVersion": 101'),
        lambda d: d.replace(b'"TableVersion": 100', b'"TableVersion": ' + b"1" * 5000),
        lambda d: d.replace(b'"TableVersion"', b'"Other"'),
        lambda d: d.replace(b'"TableColumnsTotal": 2', b'"TableColumnsTotal": 3'),
        lambda d: d.replace(b'"Schema": "shop"', b'"Schema": 7'),
        lambda d: d.replace(b'"Schema": "shop"', b'"Schema": "\\ud800"'),
        lambda d: d.replace(b'"ColumnName": "id"', b'"ColumnName": null'),
        lambda d: d.replace(b'"ColumnPrecision": "11"', b'"ColumnPrecision": "x"'),
        lambda d: d.replace(b'"ColumnType": "INT"', b'"ColumnType": "GEOMETRY"'),
        lambda d: d.replace(b'"Type": 0', b'"Type": true'),
    ],
)
def test_a_file_that_can_never_be_right_is_refused(damage: object) -> None:
    whole = schema_document("shop", "t", 100, [ID, NAME])

    with pytest.raises(SchemaError) as caught:
        parse_schema_file(damage(whole), PATH)  # type: ignore[operator]
    assert PATH in caught.value.where


SIZES = [
    {"Type": "DECIMAL", "Precision": "66"}, {"Type": "DECIMAL", "Precision": "5", "Scale": "6"},
    {"Type": "BIT", "Precision": "65"}, {"Type": "DATETIME", "Scale": "7"}, {"Type": "CHAR", "Precision": "65536"},
]  # fmt: skip


@pytest.mark.parametrize("column", SIZES)
def test_a_size_that_no_column_can_have_is_refused(column: dict) -> None:
    with pytest.raises(SchemaError, match="a size that"):
        type_of(**column)


@pytest.mark.parametrize("number", ["1" * 21, "-2", "1.5", 1.5, True, [5], "٣"])
def test_a_whole_number_is_written_with_at_most_twenty_digits(number: object) -> None:
    with pytest.raises(SchemaError, match="a whole number in ColumnPrecision"):
        parse({"ColumnType": "INT", "ColumnPrecision": number})


def test_a_version_is_a_tso() -> None:
    for version in (1, (1 << 63) - 1):
        for path in (f"shop/t/meta/schema_{version}_0000000000.json", f"shop/t/{version}/schema.json", "x"):
            assert parse_schema_file(schema_document("shop", "t", version, [ID]), path).version == version
    for version in (0, 1 << 63):
        with pytest.raises(SchemaError, match="a TSO in TableVersion"):
            parse_schema_file(schema_document("shop", "t", version, [ID]), "x")
    with pytest.raises(SchemaError, match="TableVersion 101, as in the path, found 100"):
        parse_schema_file(schema_document("shop", "t", 100, [ID]), "shop/t/101/schema.json")


VIEW = [{"ColumnName": "id", "ColumnType": "UNSPECIFIED"}, {"ColumnName": "V", "ColumnType": "UNSPECIFIED"}]


@pytest.mark.parametrize(
    ("query", "type_"),
    [
        ("CREATE ALGORITHM = UNDEFINED DEFINER = CURRENT_USER SQL SECURITY DEFINER VIEW `t` AS SELECT 1", 21),
        ("CREATE OR REPLACE VIEW `t` AS SELECT 1", 21),
        ("ALTER VIEW `t` AS SELECT 1", 0),
        ("DROP VIEW `shop`.`t`", 24),
    ],
)
def test_a_statement_on_a_view_has_no_columns(query: str, type_: int) -> None:
    file = parse_schema_file(schema_document("shop", "t", 100, VIEW, query, type_), PATH)

    assert file.is_of_view
    assert file.to_ddl_event().after is None
    assert file.to_ddl_event().query == query


def test_a_view_with_typed_columns_is_a_view_all_the_same() -> None:
    assert parse_schema_file(
        schema_document("shop", "t", 100, [ID], "CREATE VIEW `t` AS SELECT 1", 21), PATH
    ).is_of_view


def test_a_table_with_one_column_of_an_unknown_type_is_refused() -> None:
    with pytest.raises(SchemaError):
        parse_schema_file(schema_document("shop", "t", 100, [ID, VIEW[0]]), PATH)


def test_only_the_statement_that_drops_a_table_does() -> None:
    dropping = [
        parse_schema_file(schema_document("shop", "t", 100, [ID], "DROP TABLE t", type_), PATH).drops_table
        for type_ in (3, 4, 5)
    ]

    assert dropping == [False, True, False]


@pytest.mark.parametrize(
    ("flag", "nullable"), [("false", False), ("FALSE", False), (False, False), ("true", True), (True, True), ("", True)]
)
def test_a_column_is_nullable_unless_it_says_that_it_is_not(flag: object, nullable: bool) -> None:
    assert parse({"ColumnType": "INT", "ColumnNullable": flag}).columns[0].nullable is nullable
    assert parse({"ColumnType": "INT"}).columns[0].nullable
    assert parse({"ColumnType": "INT", "ColumnIsPk": flag}).key == (("c",) if flag in ("true", True) else ())


def test_text_is_cut_where_only_the_beginning_of_a_word_or_escape_is_behind_the_fault() -> None:
    for end, error in (("xxxxxx", NotYetError), ("xxxxxxx", SchemaError)):
        with pytest.raises(error):
            parse_schema_file(b'{"Table": ' + end.encode(), PATH)


@pytest.mark.parametrize("pair", ["[]", "{}"])
def test_a_file_may_be_nested_so_deep_and_no_deeper(pair: str) -> None:
    def nested(levels: int) -> bytes:
        inside = (("[" if pair == "[]" else '{"a":') * levels + "1" + pair[1] * levels).encode()
        return schema_document("shop", "t", 100, [ID]).replace(b"{", b'{"More": ' + inside + b",", 1)

    assert parse_schema_file(nested(14), PATH).table == "t"
    with pytest.raises(SchemaError, match="nested too deep"):
        parse_schema_file(nested(15), PATH)


@pytest.mark.parametrize("depth", [20, 300, 600, 900])
@pytest.mark.parametrize("pair", ["[]", "{}"])
def test_a_file_nested_deeper_than_any_schema_is_refused(pair: str, depth: int) -> None:
    begin = pair[0] if pair == "[]" else '{"a":'
    nested = begin * depth + "1" + pair[1] * depth
    sound = schema_document("shop", "t", 100, [{**ID, "ColumnIsPk": "HERE"}]).decode()

    with pytest.raises(SchemaError, match="nested too deep"):
        parse_schema_file(sound.replace('"HERE"', nested).encode(), PATH)


def test_a_wrong_checksum_is_marked_and_nothing_else() -> None:
    wrong = parse({"ColumnType": "INT"})
    right = next(checksums("shop", "t", [{"ColumnName": "c", "ColumnType": "INT"}]))

    assert not wrong.checksum_ok
    assert parse({"ColumnType": "INT"}, f"shop/t/meta/schema_100_{right:010d}.json").checksum_ok


def go_checksum(default: str) -> int:
    """What Go's json.MarshalIndent writes for one column, whose default is given as it stands in the file."""
    text = f"""{{
    "Table": "t",
    "Schema": "shop",
    "Version": 0,
    "TableColumns": [
        {{
            "ColumnName": "c",
            "ColumnType": "VARCHAR",
            "ColumnDefault": {default}
        }}
    ],
    "TableColumnsTotal": 1
}}"""
    return zlib.crc32(text.encode())


@pytest.mark.parametrize(
    "default",
    [
        r'"\u003ca\u003e \u0026"', r'"\u2028\u2029"', r'"\"\\/\n\r\t"', r'"\u0001\u001f"', '"é數\x7f"',
        r'"\u0008\u000c"', r'"\b\f"', r'"\u0002\ufffd"', '"\ufffd"', '""', "7", "1.50", "1e+21",
    ],
)  # fmt: skip
def test_the_checksum_is_over_text_as_go_spells_it(default: str) -> None:
    document = schema_document("shop", "t", 100, [{"ColumnName": "c", "ColumnType": "VARCHAR", "ColumnDefault": "@"}])
    path = f"shop/t/meta/schema_100_{go_checksum(default):010d}.json"

    assert parse_schema_file(document.replace(b'"@"', default.encode()), path).checksum_ok


def test_the_checksum_sorts_columns_by_bytes_and_leaves_out_the_statement() -> None:
    columns = [{"ColumnName": name, "ColumnType": "INT"} for name in ("b", "B", "é", "a")]
    path = f"shop/t/meta/schema_100_{next(checksums('shop', 't', columns)):010d}.json"

    for order in (columns, columns[::-1]):
        for query in ("", "ALTER TABLE t ADD INDEX i (a)"):
            assert parse_schema_file(schema_document("shop", "t", 100, order, query), path).checksum_ok


def test_errors_name_the_column_and_no_default() -> None:
    with pytest.raises(SchemaError) as caught:
        parse({"ColumnType": "GEOMETRY", "ColumnDefault": "secret"})

    assert "'c'" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert json.dumps(caught.value.args)


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("shop/t/100/schema.json", ("shop", "t")),
        ("t/shop/100/schema.json", ("t", "shop")),
        ("a/b/100/schema.json", ("shop", "t")),
        ("shop/t/meta/schema_100_0000000000.json", ("shop", "t")),
    ],
)
def test_the_oldest_clusters_wrote_the_names_of_a_table_in_reverse(path: str, names: tuple[str, str]) -> None:
    """The folders have them in the right order."""
    file = parse_schema_file(schema_document("shop", "t", 100, [ID]), path)

    assert (file.schema, file.table) == names


def test_a_table_of_its_databases_name_has_that_name_in_any_order() -> None:
    file = parse_schema_file(schema_document("t", "t", 100, [ID]), "t/t/100/schema.json")

    assert (file.schema, file.table) == ("t", "t")
