"""The functions of `changes.printed_values` under the names that the SQL of conversions has for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ticdc_assets.changes import printed_values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PRINTED_DOUBLE: Final = "ticdc_printed_double"
PRINTED_FLOAT: Final = "ticdc_printed_float"
PRINTED_JSON: Final = "ticdc_printed_json"
ROUNDED_DECIMAL: Final = "ticdc_rounded_decimal"


def register(spark: SparkSession) -> None:
    """Let a session call the functions. Each of them gives text."""
    spark.udf.register(PRINTED_DOUBLE, printed_values.printed_double, "string")
    spark.udf.register(PRINTED_FLOAT, printed_values.printed_float, "string")
    spark.udf.register(PRINTED_JSON, printed_values.printed_json, "string")
    spark.udf.register(ROUNDED_DECIMAL, printed_values.rounded_decimal, "string")
