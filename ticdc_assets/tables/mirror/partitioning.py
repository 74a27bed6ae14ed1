"""Whether the columns of a mirror can have the configured partition spec."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from pyiceberg.transforms import parse_transform

from ticdc_assets.changes.layout import LakeColumn
from ticdc_assets.errors import ConfigError
from ticdc_assets.tables.catalog import Identifier
from ticdc_assets.tables.iceberg.types import iceberg_type

Field = tuple[str, int | None, str]
"""A transform of Iceberg, its argument, and the column."""


def require_partitioning(identifier: Identifier, columns: Sequence[LakeColumn], fields: Sequence[Field]) -> None:
    """Raise ConfigError for a field whose column is not there, or of a type that its transform does not take."""
    types = {column.name: column.type for column in columns}
    for transform, argument, column in fields:
        written = transform if argument is None else f"{transform}[{argument}]"
        if column not in types:
            raise _unfit(identifier, written, column, "no such column")
        if not parse_transform(written).can_transform(iceberg_type(types[column], count(1))):
            raise _unfit(identifier, written, column, f"a column of {types[column]}")


def _unfit(identifier: Identifier, written: str, column: str, found: str) -> ConfigError:
    advice = "Give its table another `partition` in the config, or `none`; then run again."
    return ConfigError(
        ".".join(identifier), f"a column {column!r} that the partition {written} can have", found, advice
    )
