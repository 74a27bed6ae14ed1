"""The columns that are reported for a table are those that it has, after any history of changes."""

from __future__ import annotations

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import DecimalType, ListType, LongType, NestedField, StringType, StructType

from ticdc_assets.tables.fields import LakeField, LakeTable, lake_tables
from ticdc_assets.tables.iceberg.properties import COLUMNS
from ticdc_assets.tables.progress import columns_property


def test_a_column_is_reported_as_the_table_has_it(tmp_path):
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("s")
    schema = Schema(
        NestedField(1, "former_key", LongType(), required=True),
        NestedField(2, "_ticdc_commit_ts", LongType(), required=False),
        NestedField(3, "tags", ListType(6, StringType(), element_required=False), required=False),
        NestedField(4, "price", DecimalType(20, 2), required=False),
        NestedField(5, "_ticdc_before", StructType(NestedField(7, "former_key", LongType())), required=False),
    )
    properties = {COLUMNS: columns_property({11: [1, 7], 12: [3], 14: [4]})}
    catalog.create_table(("s", "t"), schema, properties=properties)

    assert lake_tables(catalog, [("s", "t"), ("s", "gone")]) == {
        ("s", "t"): LakeTable(
            (
                LakeField("former_key", "long", True, 11),
                LakeField("_ticdc_commit_ts", "long", False, None),
                LakeField("tags", "list", False, 12),
                LakeField("price", "decimal(20, 2)", False, 14),
                LakeField("_ticdc_before", "struct", False, None, (LakeField("former_key", "long", False, 11),)),
            ),
            rows=0,
        )
    }
