"""Partition specs of mirrors, as they are written: `bucket(16, id)`, a list of such fields, or either by pattern."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from pydantic import PlainValidator, WithJsonSchema

from ticdc_assets.config.model.config import PartitionField
from ticdc_assets.config.reading.sections import nearest, shown
from ticdc_assets.config.reading.validation import each, refused_by
from ticdc_assets.config.reading.values import TEXTS, texts_of
from ticdc_assets.errors import ConfigError

_TRANSFORMS: Final = ("identity", "bucket", "truncate", "year", "month", "day", "hour")
_WITH_ARGUMENT: Final = frozenset({"bucket", "truncate"})
_CALL: Final = re.compile(
    r"(?P<name>[A-Za-z]+)\s*\(\s*(?:(?P<argument>[0-9]+)\s*(?:,\s*|(?=\))))?(?P<column>[^()]*?)\s*\)"
)


def _specs(value: Any) -> dict[str, tuple[PartitionField, ...]]:
    """The fields by pattern; those without a pattern are of all tables."""
    if not isinstance(value, dict):
        return {"*.*": _fields(value)}
    return each(value, lambda _, written: _fields(written))


def _fields(value: Any) -> tuple[PartitionField, ...]:
    texts = texts_of(value)
    try:
        return () if texts == ("none",) else tuple(read_partition_field(text) for text in texts)
    except ConfigError as error:
        raise refused_by(error) from None


PartitionSpecs = Annotated[
    dict[str, tuple[PartitionField, ...]],
    PlainValidator(_specs),
    WithJsonSchema({"anyOf": [*TEXTS["anyOf"], {"type": "object", "additionalProperties": TEXTS}]}),
]


def read_partition_field(text: str) -> PartitionField:
    """Parse a partition field: `bucket(16)`, `bucket(16, id)`, `truncate(4, name)`, `day(created)`, `identity(a)`.

    Raises:
        ConfigError: the text is no partition field.
    """
    found = _CALL.fullmatch(text.strip())
    name = found["name"].lower().removesuffix("s") if found else ""
    argument = int(found["argument"]) if found and found["argument"] else None
    column = (found["column"] or None) if found else None
    if found is None or name not in _TRANSFORMS:
        meant = nearest(text.partition("(")[0], _TRANSFORMS)
        advice = f"Did you mean {meant}(...)?" if meant else "Write none, bucket(16), bucket(16, id) or day(created)."
        raise ConfigError("", "an Iceberg transform", shown(text), advice)
    if (name in _WITH_ARGUMENT) != (argument is not None) or argument == 0:
        advice = "Write bucket(16), truncate(4, name), day(created)."
        raise ConfigError("", "a number for bucket and truncate, and for them only", shown(text), advice)
    if column is None and name != "bucket":
        raise ConfigError(
            "", "a column", shown(text), f"Write {text.rstrip(')')}, column)." if argument else f"Write {name}(column)."
        )
    return PartitionField(name, argument, column)
