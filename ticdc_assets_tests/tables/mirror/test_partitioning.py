"""A partition spec that a mirror's columns cannot have is refused before anything is made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from ticdc_assets.errors import ConfigError
from ticdc_assets.schema.history.fold.events import fold
from ticdc_assets.tables.mirror.kept_files import KeptFiles
from ticdc_assets.tables.mirror.writer import MirrorOptions, MirrorWriter
from ticdc_assets.tables.progress import Progress
from ticdc_assets_tests.schema.history.histories import event

[TABLE] = fold([event(10, "t", "CREATE TABLE `t` (`k` DOUBLE PRIMARY KEY, `n` INT)")]).source_tables


@pytest.mark.parametrize(
    ("field", "found"),
    [
        (("bucket", 3, "k"), "'k' that the partition bucket[3] can have, found a column of double"),
        (("day", None, "n"), "'n' that the partition day can have, found a column of int32"),
        (("identity", None, "gone"), "'gone' that the partition identity can have, found no such column"),
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
