"""Two rebuilds of one table at once: the one that loses says so, and does not disturb the other one."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from ticdc_assets.errors import LakeError
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.rebuild.mirror import NotMadeError, clone_name, kept_clone
from ticdc_assets.schema.history.source_table import SourceTable
from ticdc_assets.tables.catalog import Identifier
from ticdc_assets_tests.pipeline.two_tables import sink

ERROR = LakeError("here", "a clone", "none", "Run again.")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    feed = sink(tmp_path).feed(tmp_path / "lake")
    feed.run()
    return feed.lake.lake


def begun(lake: Lake, run_id: str) -> tuple[SourceTable, Identifier]:
    source_table = lake.history().source_tables[0]
    clone = clone_name(lake, source_table, run_id)
    lake.catalog.create_table(clone, pa.schema([("x", pa.int64())]))
    return source_table, clone


def test_a_rebuild_whose_clone_another_one_has_forgotten_says_that(lake: Lake):
    source_table, first = begun(lake, "first")
    _, other = begun(lake, "other")

    said = pytest.raises(NotMadeError, match="expected no other rebuild of it at the same time, found one")
    with said, kept_clone(lake, source_table, first):
        with kept_clone(lake, source_table, other):
            pass  # the other one succeeds
        raise ERROR

    assert not lake.catalog.table_exists(other)


def test_a_rebuild_that_fails_leaves_the_clone_of_another_one_alone(lake: Lake):
    source_table, first = begun(lake, "first")
    _, other = begun(lake, "other")

    with pytest.raises(LakeError), kept_clone(lake, source_table, first):
        raise ERROR

    assert not lake.catalog.table_exists(first)
    assert lake.catalog.table_exists(other)
