"""The value of a new column in older rows: its default as SQL, or an error that names the column."""

from __future__ import annotations

import pytest

from ticdc_assets.errors import SchemaError
from ticdc_assets.schema.evolution.schema_state import FillColumn
from ticdc_assets.schema.history.source_table import Version
from ticdc_assets.tables.mirror.effects import fill_literal
from ticdc_assets_tests.schema.evolution.schema_states import altered, table


def filled(definition: str) -> str | None:
    """The literal for rows that are there when a column is added."""
    change = altered(table("id INT PRIMARY KEY"), f"ADD COLUMN c {definition}")
    [effect] = change.effects
    assert isinstance(effect, FillColumn)
    return fill_literal(effect, Version(1 << 18, change.table), "UTC")


@pytest.mark.parametrize(
    ("definition", "expected"),
    [
        ("FLOAT(7,2) DEFAULT 1.239", "CAST('1.2400000095367432' AS float)"),
        ("DATETIME DEFAULT 0", None),
        ("VARCHAR(3) DEFAULT 'abc  '", f"CAST(X'{b'abc'.hex()}' AS string)"),
        ("VARBINARY(9) DEFAULT x'41ff42'", "X'41efbfbd42'"),  # TiDB keeps defaults as text
        ("BINARY(4) DEFAULT x'41ff42'", "X'41efbfbd'"),
        ("BINARY(4) DEFAULT x'c3a9'", "X'c3a90000'"),
        ("VARBINARY(9) DEFAULT x'e282'", "X'efbfbdefbfbd'"),
        ("DATE DEFAULT '00-01-02'", "CAST('2000-01-02' AS date)"),
        ("TIME DEFAULT '1 10:00:00'", f"CAST(X'{b'34:00:00'.hex()}' AS string)"),
    ],
)
def test_older_rows_get_the_default_as_tidb_stores_it(definition: str, expected: str | None):
    assert expected == filled(definition)


@pytest.mark.parametrize(
    "definition",
    [
        "DATETIME DEFAULT '0'",
        "DATETIME DEFAULT '2024-01-01 00:00:00+08:00'",
        "DATE DEFAULT '2024-02-30'",
        "TIME DEFAULT '2024-01-01 10:00:00'",
        "TIME DEFAULT '1 2.5'",
        "INT NOT NULL DEFAULT ''",
        "BIT(64) DEFAULT 0.3",
        "DOUBLE(7,2) DEFAULT '1e999'",
    ],
)
def test_a_default_that_its_type_cannot_hold_is_an_error_of_the_column_without_the_value(definition: str):
    with pytest.raises(SchemaError, match="column c: expected a literal that") as caught:
        filled(definition)

    assert "2024" not in str(caught.value)
