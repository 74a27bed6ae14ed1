"""Arrow types of changes as Iceberg types, for pyiceberg and as text for Iceberg's own JSON form."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

FIELD_ID: Final = "PARQUET:field_id"

_PLAIN: dict[pa.DataType, IcebergType] = {
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
    pa.float32(): FloatType(),
    pa.float64(): DoubleType(),
    pa.string(): StringType(),
    pa.binary(): BinaryType(),
    pa.date32(): DateType(),
    pa.bool_(): BooleanType(),
    pa.timestamp("us"): TimestampType(),
    pa.timestamp("us", tz="UTC"): TimestamptzType(),
}

_ARROW: Final = {type(iceberg): arrow for arrow, iceberg in _PLAIN.items()}


def iceberg_type(arrow: pa.DataType, ids: Iterator[int]) -> IcebergType:
    """The Iceberg type; `ids` gives the element of a list its field id."""
    if pa.types.is_decimal(arrow):
        return DecimalType(arrow.precision, arrow.scale)
    if pa.types.is_list(arrow):
        return ListType(element_id=next(ids), element=iceberg_type(arrow.value_type, ids), element_required=False)
    return _PLAIN[arrow]


def arrow_of(iceberg: IcebergType) -> pa.DataType:
    """The Arrow type that changes of this Iceberg type are written with."""
    if isinstance(iceberg, DecimalType):
        return pa.decimal128(iceberg.precision, iceberg.scale)
    if isinstance(iceberg, ListType):
        return pa.list_(arrow_of(iceberg.element_type))
    if isinstance(iceberg, StructType):
        return pa.struct({field.name: arrow_of(field.field_type) for field in iceberg.fields})
    return _ARROW[type(iceberg)]


def arrow_field(field: NestedField) -> pa.Field:
    """The Arrow field that a column of a data file is written as, with the ids of it and of the fields below it."""
    arrow = _with_ids(field.field_type)
    return pa.field(field.name, arrow, nullable=not field.required, metadata=field_id(field.field_id))


def _with_ids(iceberg: IcebergType) -> pa.DataType:
    if isinstance(iceberg, ListType):
        element = _with_ids(iceberg.element_type)
        return pa.list_(pa.field("element", element, metadata=field_id(iceberg.element_id)))
    if isinstance(iceberg, StructType):
        return pa.struct([arrow_field(field) for field in iceberg.fields])
    return arrow_of(iceberg)


def id_of(field: pa.Field) -> int | None:
    """The id of a field of a Parquet file; None where it has none."""
    number = (field.metadata or {}).get(FIELD_ID.encode())
    return int(number) if number is not None else None


def field_id(number: int) -> dict[str, str]:
    """The metadata with a field's id in Arrow and Parquet."""
    return {FIELD_ID: str(number)}


def type_json(arrow: pa.DataType, element_id: int = 1000) -> str:
    """The type in the JSON of Iceberg's spec, as its Java side reads it; ids are provisional: Iceberg gives its own."""
    return iceberg_type(arrow, itertools.count(element_id)).model_dump_json()


def can_identify(arrow: pa.DataType) -> bool:
    """Whether Iceberg lets a column of this type be an identifier field: primitives other than floats."""
    return not (pa.types.is_floating(arrow) or pa.types.is_nested(arrow))
