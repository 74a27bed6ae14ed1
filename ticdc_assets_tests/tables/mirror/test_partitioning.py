"""A partition spec that a mirror's columns cannot have is refused before anything is made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from ticdc_assets.config.model.config import PartitionField
from ticdc_assets.errors import ConfigError
from ticdc_assets.schema.history.fold.events import fold
from ticdc_assets.tables.mirror.kept_files import KeptFiles
from ticdc_assets.tables.mirror.partitioning import fields_at
from ticdc_assets.tables.mirror.writer import MirrorOptions, MirrorWriter
from ticdc_assets.tables.progress import Progress
from ticdc_assets_tests.schema.history.histories import event

[TABLE] = fold([event(10, "t", "CREATE TABLE `t` (`k` DOUBLE PRIMARY KEY, `n` INT)")]).source_tables


@pytest.mark.parametrize(
    ("field", "found"),
    [
        (PartitionField("bucket", 3, "k"), "'k' that the partition bucket[3] can have, found a column of double"),
        (PartitionField("day", None, "n"), "'n' that the partition day can have, found a column of int32"),
        (PartitionField("identity", None, "gone"), "'gone' that the partition identity can have, found no such column"),
    ],
)
def test_a_partition_that_a_column_cannot_have_is_refused_with_its_name(field: Any, found: str, tmp_path: Path):
    catalog = SqlCatalog("lake", uri="sqlite://", warehouse=f"file://{tmp_path}")
    jvm: Any = None  # nothing may be made
    writer = MirrorWriter(catalog, jvm, ("s", "t"), "feed", "run", MirrorOptions(partitioning=(field,)), KeptFiles())

    with pytest.raises(ConfigError, match="partition") as caught:
        writer.open(TABLE, None, jvm, Progress())

    assert found in str(caught.value)
    assert catalog.list_namespaces() == []


def placed(*statements: str) -> list[list[tuple[str, str]]]:
    """After each statement on a table, the partition fields of `day(c)` and `bucket(4)`, with their columns."""
    [table] = fold([event(10 * n, "t", text) for n, text in enumerate(statements, start=1)]).source_tables
    configured = (PartitionField("day", None, "c"), PartitionField("bucket", 4))
    found = []
    for version in table.versions:
        names = {column.uid: column.name for column in version.table.columns}
        fields = fields_at(table, version.from_ts, configured)
        found.append([(field.transform, names[field.uid]) for field in fields])
    return found


CREATE = "CREATE TABLE `t` (`k` INT PRIMARY KEY, `c` DATETIME)"


@pytest.mark.parametrize(
    ("statements", "after"),
    [
        (["RENAME COLUMN c TO d", "ADD COLUMN x INT"], [("day", "d"), ("bucket", "k")]),
        (["RENAME COLUMN c TO d", "ADD COLUMN c DATE"], [("day", "c"), ("bucket", "k")]),
        (["RENAME COLUMN c TO d", "ADD COLUMN c INT"], [("day", "d"), ("bucket", "k")]),
        (["DROP COLUMN c"], [("bucket", "k")]),
        (["DROP COLUMN c", "ADD COLUMN c TIMESTAMP NULL"], [("day", "c"), ("bucket", "k")]),
        (["MODIFY COLUMN c VARCHAR(30)"], [("bucket", "k")]),
        (["MODIFY COLUMN c VARCHAR(30)", "MODIFY COLUMN c DATE"], [("day", "c"), ("bucket", "k")]),
        (["CHANGE COLUMN c d DATE"], [("day", "d"), ("bucket", "k")]),
        (["RENAME COLUMN k TO id"], [("day", "c"), ("bucket", "id")]),
    ],
)
def test_a_partition_field_follows_its_column_and_its_name(statements: list[str], after: list[tuple[str, str]]):
    found = placed(CREATE, *(f"ALTER TABLE `t` {text}" for text in statements))

    assert (found[0], found[-1]) == ([("day", "c"), ("bucket", "k")], after)
