"""Every valid name of MySQL becomes a valid identifier of every engine, and different names stay different."""

from __future__ import annotations

import re
import string
import unicodedata
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyiceberg.catalog.sql import SqlCatalog

from ticdc_assets.errors import ConfigError, SchemaError
from ticdc_assets.names import (
    ENCODED_BYTES_MAX,
    OP_NAME_CHARS_MAX,
    IdentifierTemplates,
    asset_key_part,
    changelog_identifier,
    check_target,
    column_name,
    control_namespace,
    decode,
    encode,
    mirror_identifier,
    op_name,
    quote,
    quote_path,
    source_column_name,
)
from ticdc_assets_tests.hostile_names import HOSTILE

# Pieces that meet at the borders of escapes find more than plain random text does.
PIECES = st.sampled_from(
    ["_", "x", "_x", "_xx", "2e", "20", "5f", "0", "a", "A", "F", ".", " ", "-", "é", "_x2e_", "_x20", "D83D"]
)
NAMES = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(max_size=70),
    st.text(alphabet=string.ascii_letters + string.digits + "_", max_size=64),
    st.lists(PIECES, max_size=12).map("".join),
    st.lists(PIECES, min_size=20, max_size=60).map("".join),
)
MANY = settings(max_examples=400, deadline=None)


# ---- tables


@pytest.mark.parametrize(
    ("name", "identifier"),
    [
        ("orders", "orders"),
        ("App_DB", "App_DB"),
        ("orders_R2", "orders_R2"),
        ("odd-names", "odd-names"),
        ("pos_x", "pos_x"),
        ("tbl_xyz_1", "tbl_xyz_1"),
        ("no key", "no_x20_key"),
        ("Old.db", "Old_x2e_db"),
        ("naïve", "na_xef_ve"),
        ("a_x2e_b", "a_x5f_x2e_b"),
        ("", "_x_"),
        ("..", "_x2e__x2e_"),
    ],
)
def test_ordinary_names_stay_readable(name, identifier):
    assert identifier == encode(name)


@MANY
@given(NAMES, st.booleans())
def test_an_identifier_is_safe_for_paths_sql_and_catalogs(name, portable):
    identifier = encode(name, portable=portable)

    allowed = r"[a-z0-9_]+" if portable else r"[A-Za-z0-9_-]+"
    assert re.fullmatch(allowed, identifier)
    assert len(identifier.encode()) <= ENCODED_BYTES_MAX


@MANY
@given(NAMES, st.booleans())
@example("_x2e.", False)
@example("_x2eA", True)
@example(".xx" + "0" * 20, False)
def test_a_name_comes_back_from_its_identifier(name, portable):
    identifier = encode(name, portable=portable)

    back = decode(identifier)

    if back is None:
        assert len(name) * 8 > ENCODED_BYTES_MAX - 23
        assert encode(name[:-1] + chr(ord(name[-1]) ^ 1), portable=portable) != identifier
    else:
        assert name == back


@pytest.mark.parametrize("beyond", ["110000", "200000", "ffffff"])
def test_a_name_that_is_cut_at_what_is_no_character_has_an_identifier(beyond: str):
    for colons in range(30):
        name = f"{'0' * 19}{':' * colons}_x{beyond}{'0' * 9}:::"
        identifier = encode(name)
        assert identifier != encode(name + ":")
        assert decode(identifier) in (None, name)


@MANY
@given(NAMES, NAMES, st.booleans())
@example("", "0000000000000000000::::::::::_x200000000000000:::", False)
def test_different_names_give_different_identifiers(one, other, portable):
    assert (one == other) == (encode(one, portable=portable) == encode(other, portable=portable))


def test_a_thousand_hostile_twins_stay_apart():
    names = {a + glue + b for a in HOSTILE for b in HOSTILE for glue in ("", "_", ".")}

    assert len(names) > 1000
    assert len(names) == len({encode(name) for name in names})
    assert len(names) == len({encode(name, portable=True) for name in names})
    assert len(names) == len({encode(name, portable=True).lower() for name in names})
    assert len(names) == len({column_name(name) for name in names})
    assert len(names) == len({asset_key_part(name) for name in names})
    assert len(names) == len({op_name(name) for name in names})


def test_composed_and_decomposed_letters_stay_apart_even_where_paths_are_normalised():
    one, other = encode("é"), encode("e\u0301")

    assert unicodedata.normalize("NFC", one) != unicodedata.normalize("NFC", other)


def test_a_name_that_is_too_long_keeps_its_beginning():
    identifier = encode("y" * 200)

    assert identifier.startswith("yyyyyyyy")
    assert len(identifier) == ENCODED_BYTES_MAX
    assert decode(identifier) is None


# ---- where tables go


def test_the_default_target_is_readable():
    target = IdentifierTemplates()

    assert mirror_identifier(target, "shop_feed", "shop", "orders") == ("shop", "orders")
    assert changelog_identifier(target, "shop_feed", "shop", "orders") == ("shop__changes", "orders")
    assert control_namespace(target, "shop_feed") == ("ticdc_shop_feed",)


def test_dots_of_names_do_not_make_parts():
    target = IdentifierTemplates(mirror="lake.{changefeed}.{schema}.{table}")

    assert mirror_identifier(target, "f", "Old.db", "a.b") == ("lake", "f", "Old_x2e_db", "a_x2e_b")


def test_braces_of_names_are_no_fields():
    assert mirror_identifier(IdentifierTemplates(), "f", "{table}", "{0}") == ("_x7b_table_x7d_", "_x7b_0_x7d_")


def test_a_portable_target_has_no_upper_case():
    assert mirror_identifier(IdentifierTemplates(portable=True), "F", "App_DB", "a-b") == (
        "_x41_pp__x44__x42_",
        "a_x2d_b",
    )


TARGETS = [
    IdentifierTemplates(),
    IdentifierTemplates(portable=True),
    IdentifierTemplates(mirror="m_{schema}.{table}", changelog="{schema}.{table}"),
    IdentifierTemplates(mirror="{changefeed}.{schema}.{table}", changelog="{changefeed}.log_{schema}.{table}"),
    IdentifierTemplates(mirror="{schema}.{table}", changelog="{schema}.{changefeed}.{table}", control="{changefeed}"),
]


@settings(max_examples=600, deadline=None)
@given(
    st.sampled_from(TARGETS),
    st.lists(
        st.tuples(
            st.sampled_from(["s", "s__changes", "s__change_x73_", "m_s", "log_s", "ticdc_f", "f", "s.", "_", "m_m_s"]),
            st.sampled_from(["t", "T", "t.", "watermarks", "t__changes"]),
        ),
        min_size=1,
        max_size=8,
        unique=True,
    ),
)
def test_no_two_tables_share_an_identifier(target, tables):
    check_target(target)

    identifiers = [make(target, "f", *table) for make in (mirror_identifier, changelog_identifier) for table in tables]

    assert len(identifiers) == len(set(identifiers))
    assert control_namespace(target, "f") not in {identifier[:-1] for identifier in identifiers}


def test_tables_with_the_same_name_in_a_stream_stop_with_advice():
    target = IdentifierTemplates(mirror="{schema}.{table}", changelog="a{schema}x.{table}x")
    check_target(target)

    assert mirror_identifier(target, "f", "s", "t") == ("s", "t")
    with pytest.raises(SchemaError, match="target"):
        mirror_identifier(IdentifierTemplates(mirror="{schema}.{table}", changelog="{schema}.x{table}"), "f", "s", "xt")


@pytest.mark.parametrize(
    ("target", "place"),
    [
        (IdentifierTemplates(mirror="{table}"), "mirror"),
        (IdentifierTemplates(mirror="{schema}..{table}"), "mirror"),
        (IdentifierTemplates(mirror="{schema}.{tabel}"), "mirror"),
        (IdentifierTemplates(mirror="{schema}.{table!r}"), "mirror"),
        (IdentifierTemplates(mirror="{schema}.{table:>9}"), "mirror"),
        (IdentifierTemplates(mirror="{schema}.{}"), "mirror"),
        (IdentifierTemplates(mirror="{schema}.{table"), "mirror"),
        (IdentifierTemplates(mirror="{schema}.a b{table}"), "mirror"),
        (IdentifierTemplates(mirror="{schema}.all"), "mirror"),
        (IdentifierTemplates(changelog="{schema}.{table}"), "changelog"),
        (IdentifierTemplates(changelog="{table}.{schema}"), "changelog"),
        (IdentifierTemplates(control="ticdc_{schema}"), "control"),
        (IdentifierTemplates(control=""), "control"),
    ],
)
def test_templates_that_cannot_work_are_refused(target, place):
    with pytest.raises(ConfigError) as caught:
        check_target(target)

    assert caught.value.where == place


# ---- columns


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("id", "id"),
        ("MiXed", "MiXed"),
        ("a b", "a b"),
        ("naïve", "naïve"),
        ('q"x,y', 'q"x,y'),
        ("a`b", "a`b"),
        ("名前", "名前"),
        ("1a", "1a"),
        ("bbox_x1", "bbox_x1"),
        ("_private", "_private"),
        ("a.b", "a_x2e_b"),
        ("a\0b", "a_x0_b"),
        ("_1a", "_x5f_1a"),
        ("a_x20b", "a_x5f_x20b"),
        ("_ticdc_op", "_x5f_ticdc_op"),
        ("_File", "_x5f_File"),
        ("amount__v456789012345678901", "amount__x5f_v456789012345678901"),
        ("schema__v2", "schema__v2"),
    ],
)
def test_columns_keep_their_names_but_for_what_a_table_cannot_hold(name, column):
    assert column == column_name(name)


@MANY
@given(NAMES)
@example("_x2e.")
@example("_x2E_")
def test_a_column_name_comes_back(name):
    assert name == source_column_name(column_name(name))


@MANY
@given(NAMES)
def test_a_column_never_reads_as_a_path_or_as_one_of_ours(name):
    column = column_name(name)

    assert column
    assert not set(column) & set(".\0\n\r\t\x7f")
    assert not column.lower().startswith("_ticdc_")
    assert not re.search(r"__v\d{15,}\Z", column)


def test_an_iceberg_table_holds_all_hostile_columns_at_once(tmp_path: Path):
    """The names that Iceberg rewrites for Parquet meet there unless they are encoded: `a b` is written as `a_x20b`."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=str(tmp_path / "wh"))
    catalog.create_namespace("n")
    sources = [
        *HOSTILE,
        "_x5f_1a",
        "a_x2Eb",
        "_xD83D_xDE00",
        "😀",
        "a_x7Bb",
        "a{b",
        "a_x2E_b",
        "a.b",
        "_ticdc_before.id",
    ]
    folded = {column_name(name).lower(): column_name(name) for name in dict.fromkeys(sources)}
    columns = list(folded.values())
    values = dict.fromkeys(columns, 1)
    table = pa.Table.from_pylist([{**values, "_ticdc_before": values}])

    made = catalog.create_table(("n", "t"), schema=table.schema)
    made.append(table)

    assert len(columns) > 50
    assert catalog.load_table(("n", "t")).scan().to_arrow().to_pylist() == table.to_pylist()


def test_every_hostile_identifier_is_a_table_of_its_own_in_a_sql_catalog(tmp_path: Path):
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=str(tmp_path / "wh"))
    schema = pa.schema([pa.field("a", pa.int32())])
    names = list(dict.fromkeys(HOSTILE))[:20]
    for name in names:
        catalog.create_namespace_if_not_exists(encode(name))
        catalog.create_table(mirror_identifier(IdentifierTemplates(), "f", name, name), schema=schema)

    assert {(encode(n), encode(n)) for n in names} == {
        t for n in catalog.list_namespaces() for t in catalog.list_tables(n)
    }
    for path in (tmp_path / "wh").rglob("*.metadata.json"):
        assert len(path.relative_to(tmp_path / "wh").parts) == 4


# ---- SQL and Dagster


def test_quoted_identifiers_read_back_in_spark_sql():
    assert quote("a`b") == "`a``b`"
    assert quote_path(("lake", "Old_x2e_db", "no key")) == "`lake`.`Old_x2e_db`.`no key`"


@given(st.text())
def test_a_quoted_identifier_ends_at_its_last_backtick_only(name):
    inside = quote(name)[1:-1]

    assert "`" not in inside.replace("``", "")
    assert name == inside.replace("``", "`")


@pytest.mark.parametrize("name", ["orders", "App_DB", "orders_R2", "t1"])
def test_ordinary_names_are_parts_of_asset_keys_as_they_are(name):
    assert name == asset_key_part(name)


@MANY
@given(NAMES, NAMES)
def test_parts_of_asset_keys_stay_apart_when_dagster_joins_them(one, other):
    part = asset_key_part(one)

    assert re.fullmatch(r"[A-Za-z0-9]+(_[A-Za-z0-9]+)*", part)
    assert len(part) <= ENCODED_BYTES_MAX
    assert (one == other) == (part == asset_key_part(other))


def test_dagster_takes_every_hostile_name_in_one_op():
    keys = [dg.AssetKey(["feed", asset_key_part(schema), asset_key_part("t")]) for schema in dict.fromkeys(HOSTILE)]

    @dg.multi_asset(specs=[dg.AssetSpec(key) for key in keys], name=op_name("decode", *HOSTILE))
    def decode_all():
        """Never run."""

    assert set(keys) == set(decode_all.keys)
    assert len(keys) == len({key.to_python_identifier() for key in keys})
    assert all(dg.AssetKey.from_user_string(key.to_user_string()) == key for key in keys)


@MANY
@given(st.lists(NAMES, min_size=1, max_size=3), st.lists(NAMES, min_size=1, max_size=3))
def test_op_names_are_legal_and_tell_parts_apart(one, other):
    name = op_name(*one)

    assert re.fullmatch(r"[A-Za-z0-9_]+", name)
    assert len(name) <= OP_NAME_CHARS_MAX
    assert (one == other) == (name == op_name(*other))


def test_an_op_name_begins_with_what_it_is_about():
    assert re.fullmatch(r"mirror_shop_orders_[0-9a-f]{8}", op_name("mirror", "shop", "orders"))
    assert op_name("a", "b_c") != op_name("a_b", "c")
