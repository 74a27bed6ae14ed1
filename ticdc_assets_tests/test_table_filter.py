"""The filter decides as TiDB's table-filter package does; the cases follow that package's documentation."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ticdc_assets.errors import ConfigError
from ticdc_assets.names.table_filter import ColumnSelector, ColumnSelectors, TableFilter

# rules, then (schema, table, accepted with regard to case, accepted without)
CASES: list[tuple[list[str], list[tuple[str, str, bool, bool]]]] = [
    ([], [("a", "b", False, False)]),
    (["*.*"], [("a", "b", True, True), ("", "", True, True), ("x\ny", "z\n", True, True)]),
    (["shop.*"], [("shop", "t", True, True), ("shop1", "t", False, False), ("SHOP", "t", False, True)]),
    (["*.*", "!tmp.*"], [("shop", "t", True, True), ("tmp", "t", False, False), ("Tmp", "t", True, False)]),
    (["!tmp.*"], [("shop", "t", False, False)]),
    (["!tmp.*", "*.*"], [("tmp", "t", True, True)]),
    (
        ["db*.*", "!*.cfg*", "*.cfgsample"],
        [
            ("other", "t", False, False),
            ("db1", "t", True, True),
            ("db1", "cfg1", False, False),
            ("db1", "cfgsample", True, True),
            ("other", "cfgsample", True, True),
        ],
    ),
    (["db?.t?"], [("db1", "t1", True, True), ("db", "t1", False, False), ("db12", "t1", False, False)]),
    (["db[0-9].t[!0-9]"], [("db7", "tx", True, True), ("dbx", "tx", False, False), ("db7", "t7", False, False)]),
    (["[^a].t"], [("^", "t", True, True), ("a", "t", True, True), ("b", "t", False, False)]),
    (["[\\]\\-].t"], [("]", "t", True, True), ("-", "t", True, True), ("\\", "t", False, False)]),
    (["[a&&b].t"], [("&", "t", True, True), ("a", "t", True, True), ("c", "t", False, False)]),
    (['"a.b"."c""d"'], [("a.b", 'c"d', True, True), ("a", "b", False, False), ("A.B", 'C"D', False, True)]),
    (["`a``b`.`*`"], [("a`b", "*", True, True), ("a`b", "x", False, False)]),
    (["a\\.b.c\\*"], [("a.b", "c*", True, True), ("a.b", "cx", False, False)]),
    (
        [r"/^db\d{2,}$/./^tbl\d{2,}$/"],
        [("db01", "tbl02", True, True), ("db1", "tbl02", False, False), ("db٠١", "tbl02", False, False)],
    ),
    (["/b/.*"], [("db01", "t", True, True), ("DB01", "t", False, True), ("x", "t", False, False)]),
    (["/a\\/b/.t"], [("a/b", "t", True, True), ("ab", "t", False, False)]),
    (["/^x$/.t"], [("x", "t", True, True), ("x\n", "t", False, False)]),
    (["数据.表?"], [("数据", "表1", True, True), ("数据", "表", False, False)]),
    (["a$b_1.t"], [("a$b_1", "t", True, True), ("a", "t", False, False)]),
    (["# all of it", "  ", "\tx.y "], [("x", "y", True, True), ("y", "y", False, False)]),
    (["x.y"], [("x", "y\n", False, False)]),
    (["tr.İŞLEM"], [("tr", "işlem", False, True), ("TR", "İŞLEM", False, True), ("tr", "ışlem", False, False)]),
    (["tr.işlem"], [("tr", "İŞLEM", False, True), ("tr", "i̇şlem", False, False)]),
    (["gr.ΟΔΟΣ"], [("gr", "οδοσ", False, True), ("gr", "ΟΔΟΣ", True, True), ("gr", "οδος", False, False)]),
    (["gr.οδος"], [("gr", "ΟΔΟΣ", False, False), ("gr", "Οδος", False, True)]),
    # In a regular expression of Go, both forms of a small sigma are one letter; i with or without a dot are others.
    (["gr.οδος*"], [("gr", "ΟΔΟΣ1", False, True), ("gr", "οδος1", True, True)]),
    (["tr.i*"], [("tr", "İ1", False, True), ("tr", "ı1", False, False), ("tr", "I", False, True)]),
    (["tr.ı?"], [("tr", "ı1", True, True), ("tr", "i1", False, False), ("tr", "I1", False, False)]),
    (["tr.İ?"], [("tr", "İ1", True, False), ("tr", "i1", False, False)]),
    (["tr.[a-z]"], [("tr", "ı", False, False), ("tr", "ſ", False, True), ("tr", "K", False, True)]),
    (["tr.[à-ſ]"], [("tr", "ı", True, True), ("tr", "É", False, True), ("tr", "b", False, False)]),
    (["tr.[!i]"], [("tr", "ı", True, True), ("tr", "I", True, False), ("tr", "İ", True, False)]),
    ([r"tr./^É\w$/"], [("tr", "Éa", True, True), ("tr", "éA", False, True)]),
]


@pytest.mark.parametrize(("rules", "tables"), CASES, ids=[" ".join(rules) or "none" for rules, _ in CASES])
def test_the_last_matching_rule_decides(rules, tables):
    exact, folded = TableFilter(rules, case_sensitive=True), TableFilter(rules)

    for schema, table, with_case, without in tables:
        assert (with_case, without) == (exact.matches(schema, table), folded.matches(schema, table)), (schema, table)


@pytest.mark.parametrize(
    "rule",
    [
        "db",
        "db.",
        ".t",
        "a.b.c",
        "a%b.c",
        "odd-db.t",
        r"a\tb.c",
        "db\\",
        "[].*",
        "[.*",
        "[!].*",
        r"[\d].*",
        "[z-a].*",
        "/db.*",
        "`db.*",
        '"db.*',
        '"".t',
        "`db`*.*",
        "db.tbl#no comment",
        "/^t((?!_copy).)*$/.*",
        r"/(a)\1/.*",
        "/[[:alpha:]]/.*",
        "/a(/.*",
        "@rules.txt",
    ],
)
def test_a_rule_that_tidb_refuses_is_refused_with_the_rule_and_advice(rule):
    with pytest.raises(ConfigError) as caught:
        TableFilter([rule])

    assert repr(rule) in caught.value.where
    assert caught.value.advice


@given(st.text(min_size=1), st.text(min_size=1), st.text(), st.text())
def test_a_quoted_name_means_that_name_and_no_other(schema, table, other_schema, other_table):
    rule = '"{}".`{}`'.format(schema.replace('"', '""'), table.replace("`", "``"))

    chosen = TableFilter([rule], case_sensitive=True)

    assert chosen.matches(schema, table)
    assert chosen.matches(other_schema, other_table) == ((other_schema, other_table) == (schema, table))


@given(st.text(), st.booleans())
def test_any_text_is_a_rule_or_a_config_error(text, case_sensitive):
    try:
        TableFilter([text], case_sensitive).matches("a", "b")
    except ConfigError:
        return


def test_filters_of_equal_rules_are_equal():
    assert TableFilter(["a.b"]) == TableFilter(["a.b"])
    assert TableFilter(["a.b"]) != TableFilter(["a.b"], case_sensitive=True)
    assert repr(TableFilter(["a.b"])) == "TableFilter(rules=('a.b',), case_sensitive=False)"


def selectors(*rules: tuple[list[str], list[str]]) -> ColumnSelectors:
    return ColumnSelectors(tuple(ColumnSelector(TableFilter(tables), tuple(columns)) for tables, columns in rules))


@pytest.mark.parametrize(
    ("rules", "sent"),
    [
        ([], ["id", "Name", "secret"]),
        ([(["s.*"], ["*", "!secret"])], ["id", "Name"]),
        ([(["s.*"], ["*", "!SECRET"])], ["id", "Name"]),
        ([(["s.*"], ["!secret", "*"])], ["id", "Name", "secret"]),
        ([(["s.*"], ["id", "n?me"])], ["id", "Name"]),
        ([(["s.*"], ["!secret"])], []),
        ([(["other.*"], ["id"])], ["id", "Name", "secret"]),
        ([(["s.t"], ["id"]), (["s.*"], ["*"])], ["id"]),
        ([(["s.*"], ["`id`", "/^n/"])], ["id", "Name"]),
    ],
)
def test_the_first_selector_of_a_table_decides_which_columns_are_sent(rules: list, sent: list[str]):
    """As TiCDC's own: of a selector's rules the last that matches decides, and what none matches is left out."""
    found = selectors(*rules)

    assert [name for name in ("id", "Name", "secret") if not found.leaves_out("s", "t", name)] == sent


@pytest.mark.parametrize("rule", ["a.b", "[", "!", "`a"])
def test_a_column_rule_that_cannot_be_read_is_refused(rule: str):
    with pytest.raises(ConfigError, match=re.escape(repr(rule))):
        selectors((["*.*"], [rule]))
