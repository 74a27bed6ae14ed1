"""Commits of other writers are recognised from the snapshots of a table alone."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

from ticdc_assets.assets.checks.results import written_by_runs_alone
from ticdc_assets.spark import session
from ticdc_assets.tables.foreign_writes import foreign_writes
from ticdc_assets.tables.progress import Progress
from ticdc_assets_tests.pipeline.rebuild.rebuilt import rebuild, sql
from ticdc_assets_tests.pipeline.small_feeds import Sink
from ticdc_assets_tests.pipeline.two_tables import T, changelogs, sink

OURS = Progress(5, -1, "run").summary("feed", Progress(4))


ROWS = pa.table({"x": [1, 2, 3]})


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Three rows that a run has appended."""
    catalog = load_catalog("made", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w")
    catalog.create_namespace("n")
    made = catalog.create_table(("n", "t"), ROWS.schema)
    made.append(ROWS, snapshot_properties=OURS)
    return made


def test_the_changelogs_of_runs_have_none(tmp_path: Path):
    feed = sink(tmp_path).feed(tmp_path / "lake")
    feed.run()

    assert [foreign_writes(table) for table in changelogs(feed).values()] == [(), ()]


def test_a_repeated_row_and_a_lost_row_name_the_snapshot_before_them(table: Table):
    before = table.metadata.current_snapshot_id
    table.append(ROWS.slice(0, 1))
    table.append(ROWS, snapshot_properties=OURS)
    table.delete("x = 2")

    found = foreign_writes(table)

    assert (found[-1].rows_added, found[-1].rows_deleted, found[-1].before) == (1, 0, before)
    assert sum(one.rows_deleted - one.rows_added for one in found[:-1]) == 2
    said = written_by_runs_alone("s.t", found, {}, by_arrival=False)
    assert not said.passed
    assert f"set the changelog back to snapshot {before}" in said.sentence
    assert "do not rebuild the mirror from it" in said.sentence


def test_writes_from_before_a_table_was_last_empty_do_not_count(table: Table):
    table.append(ROWS)
    table.overwrite(ROWS.slice(0, 0), snapshot_properties=OURS)
    assert len(table.scan().to_arrow()) == 0

    table.append(ROWS, snapshot_properties=OURS)

    assert foreign_writes(table) == ()


@pytest.mark.long
@pytest.mark.spark
def test_statements_and_rebuilds_are_own_writes_and_a_rebuild_undoes_those_of_others(tmp_path: Path):
    made = Sink(tmp_path / "bucket")
    made.table(T)
    made.file(T, 1, [made.insert(T, 110, 1, "one"), made.insert(T, 120, 2, "two")])
    made.bucket.checkpoint(200)
    feed = made.feed(tmp_path / "lake", history=["s.*"])
    feed.lake.run()
    made.alter(T, 300, "TRUNCATE TABLE `t`")
    made.file(T, 1, [made.insert(T, 310, 3, "three"), made.insert(T, 320, 4, "four")], version=300)
    made.bucket.checkpoint(400)
    feed.lake.run()

    def tables() -> list[Table]:
        record, catalog = feed.record(T), feed.lake.lake.catalog
        names = (record.changelog, record.mirror, record.history_table)
        return [catalog.load_table(tuple(name)) for name in names if name]

    assert [foreign_writes(table) for table in tables()] == [(), (), ()]
    sql(feed, "DELETE FROM {}.t WHERE id = 3")
    history = ".".join(f"`{part}`" for part in feed.record(T).history_table or ())
    session(feed.lake.config).sql(f"DELETE FROM {feed.lake.catalog_name}.{history} WHERE id = 1")
    counts = [len(foreign_writes(table)) for table in tables()]
    assert counts == [0, 1, 1]

    assert rebuild(feed.lake, "s.t").errors == {}

    assert [foreign_writes(table) for table in tables()] == [(), (), ()]
