"""Small files that workers copy into one: rows, row ids, progress and records stay, and runs go on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table

from ticdc_assets import spark
from ticdc_assets.pipeline.maintenance import upkeep
from ticdc_assets.pipeline.maintenance.upkeep import compact_small
from ticdc_assets.spark import SparkWorkers
from ticdc_assets.tables.catalog import ensure_namespace
from ticdc_assets.tables.iceberg.jvm import JvmCatalog, JvmTable
from ticdc_assets.tables.iceberg.row_delta import PlannedCommit
from ticdc_assets.tables.maintenance.compaction import compact, counts_of, replace_files
from ticdc_assets.tables.progress import progress_of
from ticdc_assets_tests.pipeline.small_feeds import ID, Feed, Sink, column

T = ("s", "t")
CHANGELOG = ("s__changes", "t")
DAY = 86_400_000 << 18
FORMAT_3 = "TBLPROPERTIES ('format-version' = '3')"


def written(folder: Path) -> tuple[Sink, Feed]:
    """Runs that insert, update and delete rows, on two days, with a column that is renamed and one that is added."""
    sink = Sink(folder / "bucket", checkpoint=1000, old_values=True)
    sink.table(T)
    sink.file(T, 1, [sink.line(T, "I", 110 + number, number, f"row {number}", half=False) for number in range(6)])
    feed = sink.feed(folder / "lake")
    feed.lake.run()
    sink.file(T, 2, [*sink.update(T, 1100, (1, "row 1"), (1, "uno")), sink.line(T, "D", 1110, 2, "row 2", half=False)])
    sink.bucket.checkpoint(2000)
    feed.lake.run()
    renamed = column("title", "VARCHAR", ColumnPrecision="200")
    sink.alter(
        T,
        2100,
        "ALTER TABLE `t` RENAME COLUMN `name` TO `title`, ADD COLUMN `n` INT",
        [ID, renamed, column("n", "INT")],
    )
    sink.file(T, 1, [sink.line(T, "I", DAY + 5, 7, "seven", 7, half=False)], version=2100)
    sink.bucket.checkpoint(DAY + 10)
    feed.lake.run()
    sink.file(T, 2, [sink.line(T, "D", DAY + 20, 3, "row 3", None, half=False)], version=2100)
    sink.bucket.checkpoint(DAY + 30)
    feed.lake.run()
    return sink, feed


def never(*_: Any) -> int:
    pytest.fail("Spark's procedure was asked for")


def compacted(feed: Feed, name: tuple[str, ...]) -> tuple[int, Table]:
    session = spark.session(feed.lake.config)
    jvm = JvmCatalog(session, feed.lake.catalog_name)
    table = feed.lake.lake.catalog.load_table(name)
    return compact_small(jvm, SparkWorkers(session), table, never), table.refresh()


def shown(feed: Feed, name: tuple[str, ...], columns: str = "*") -> list[tuple[Any, ...]]:
    """The rows as Spark reads them."""
    session = spark.session(feed.lake.config)
    rows = session.sql(f"SELECT {columns} FROM `{feed.lake.catalog_name}`.{'.'.join(name)}").collect()
    return sorted((tuple(row) for row in rows), key=str)


@pytest.fixture
def fed(tmp_path: Path) -> tuple[Sink, Feed]:
    """A lake of each test's own: tests write more files of the source, by number."""
    return written(tmp_path)


def test_a_mirror_keeps_its_rows_their_ids_and_its_progress(fed: tuple[Sink, Feed], monkeypatch: pytest.MonkeyPatch):
    sink, feed = fed
    lineage = "_row_id, _last_updated_sequence_number, *"
    rows, before = shown(feed, T, lineage), feed.lake.lake.catalog.load_table(T)
    assert (counts_of(before).data, counts_of(before).deletes) == (3, 1)

    files, mirror = compacted(feed, T)

    assert (files, counts_of(mirror).data, counts_of(mirror).deletes) == (3, 1, 0)
    assert shown(feed, T, lineage) == rows
    assert progress_of(mirror) == progress_of(before)
    assert len(mirror.scan(snapshot_id=feed.record(T).mirror_snapshot_id).to_arrow()) == len(rows)

    sink.file(T, 3, [sink.line(T, "U", DAY + 40, 7, "sept", 8, half=False)], version=2100)
    sink.bucket.checkpoint(DAY + 50)
    feed.lake.run()
    updated = shown(feed, T, lineage)
    assert {row[2:] for row in updated} - {row[2:] for row in rows} == {(7, "sept", DAY + 40, 8)}

    jvm = JvmCatalog(spark.session(feed.lake.config), feed.lake.catalog_name)
    with monkeypatch.context() as patch:
        patch.setattr(upkeep, "replace_files", _after(lambda: jvm.load(T).append_nothing({})))
        files, mirror = compacted(feed, T)
    assert (files, counts_of(mirror).data) == (0, 2), "another writer was first"
    files, mirror = compacted(feed, T)
    assert (files, counts_of(mirror).all) == (2, 1)
    assert shown(feed, T, lineage) == updated


def test_small_files_that_another_writer_removes_meanwhile_are_not_replaced(
    fed: tuple[Sink, Feed], monkeypatch: pytest.MonkeyPatch
):
    feed, snapshot_of = fed[1], PlannedCommit.snapshot_of

    def after_a_removal(commit: PlannedCommit, update: Any) -> Any:
        every = commit.table.named("org.apache.iceberg.expressions.Expressions.alwaysTrue")()
        other = JvmCatalog(spark.session(feed.lake.config), feed.lake.catalog_name).load(T)
        other.java.newDelete().deleteFromRowFilter(every).commit()
        return snapshot_of(commit, update)

    monkeypatch.setattr(PlannedCommit, "snapshot_of", after_a_removal)
    files, mirror = compacted(feed, T)

    assert (files, counts_of(mirror).data) == (0, 0)
    assert shown(feed, T) == []


def _after(other: Callable[[], None]) -> Callable[..., bool]:
    def replaced(*given: Any) -> bool:
        other()
        return replace_files(*given)

    return replaced


@pytest.mark.parametrize(
    ("parted", "change"),
    [
        ("", lambda session, table: session.sql(f"ALTER TABLE {quoted(table)} ADD PARTITION FIELD name")),
        (
            "PARTITIONED BY (name)",
            lambda session, table: session.sql(f"ALTER TABLE {quoted(table)} DROP PARTITION FIELD name"),
        ),
        ("", lambda session, table: add_column_of_five(table)),
    ],
    ids=["partitioned later", "partitioned before", "a value for older files"],
)
def test_what_only_icebergs_procedure_can_rewrite_is_left_to_it(
    fed: tuple[Sink, Feed], parted: str, change: Callable[[Any, JvmTable], object], request: pytest.FixtureRequest
):
    lake, session = fed[1].lake, spark.session(fed[1].lake.config)
    jvm, name = JvmCatalog(session, lake.catalog_name), ("d", f"t{request.node.callspec.id.replace(' ', '_')}")
    ensure_namespace(lake.lake.catalog, name[:-1])
    sql_name = f"`{lake.catalog_name}`.{'.'.join(name)}"
    session.sql(f"CREATE TABLE {sql_name} (id INT, name STRING) USING iceberg {parted} {FORMAT_3}")
    for number in range(4):
        session.sql(f"INSERT INTO {sql_name} (id, name) VALUES ({number}, 'a')")
        if number == 1:
            change(session, jvm.load(name))
    rows, asked = shown(fed[1], name), []

    def otherwise(jvm: JvmCatalog, table: Table) -> int:
        asked.append(table.name())
        return compact(jvm, table)

    compact_small(jvm, SparkWorkers(session), lake.lake.catalog.load_table(name), otherwise)

    assert asked == [name]
    assert shown(fed[1], name) == rows


def quoted(table: JvmTable) -> str:
    catalog, *names = str(table.java.name()).split(".")
    return ".".join(f"`{name}`" for name in (catalog, *names))


def add_column_of_five(table: JvmTable) -> None:
    """Add a column that has the value 5 in files without it."""
    five = table.named("org.apache.iceberg.expressions.Expressions.lit")(5)
    kind = table.named("org.apache.iceberg.types.Types").IntegerType.get()
    table.java.updateSchema().addColumn("n", kind, five).commit()


def test_a_changelog_keeps_its_changes_by_day(fed: tuple[Sink, Feed]):
    sink, feed = fed
    rows, before = shown(feed, CHANGELOG), feed.lake.lake.catalog.load_table(CHANGELOG)

    files, changelog = compacted(feed, CHANGELOG)

    assert files == counts_of(before).data >= 4
    assert counts_of(changelog).all == 2, "one for each day"
    assert shown(feed, CHANGELOG) == rows
    assert len(changelog.scan().to_arrow()) == len(rows)
    assert progress_of(changelog) == progress_of(before)
    sink.file(T, 3, [sink.line(T, "I", DAY + 60, 8, "eight", 8, half=False)], version=2100)
    sink.bucket.checkpoint(DAY + 70)
    report = feed.lake.run()
    assert report is not None
    assert report.errors == {}
    assert len(shown(feed, CHANGELOG)) == len(rows) + 1
    assert (8, "eight", DAY + 60, 8) in shown(feed, T)
