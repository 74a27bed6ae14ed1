"""All mirrors of a record against a real TiDB that TICDC_ASSETS_TIDB names, also while a table is held."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import count
from pathlib import Path

import dagster as dg
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from ticdc_assets.assets.checks.upstream import EQUALS_UPSTREAM, of_verdict
from ticdc_assets.changes.layout import mirror_columns
from ticdc_assets.errors import NotYetError
from ticdc_assets.pipeline.history.extent import Extent, Sample
from ticdc_assets.pipeline.history.verify import TableVerdict, verify
from ticdc_assets.tables.catalog import ensure_namespace
from ticdc_assets.tables.control.records import TableRecord
from ticdc_assets.tables.iceberg.properties import BORN, COLUMNS, SOURCE_TABLE, VERSION
from ticdc_assets.tables.iceberg.types import iceberg_type
from ticdc_assets.tables.progress import Progress, columns_property
from ticdc_assets.tso import now
from ticdc_assets.work_progress import Count
from ticdc_assets_tests.assets.feeds import QUIET, Feed, checks
from ticdc_assets_tests.assets.feeds import without_java as without_java
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.small_feeds import Sink, column
from ticdc_assets_tests.sources.upstream.real_tidb import SERVER, Tidb

SCHEMA = "ticdc_assets_verified"
USERS, ORDERS, LOST = ((SCHEMA, name) for name in ("users", "orders", "lost"))
NULLABLE = [column("id", "INT"), column("name", "VARCHAR", ColumnLength="200")]
NOWHERE = {"host": "127.0.0.1", "port": 1, "user": "root"}


@pytest.fixture
def tidb() -> Iterator[Tidb]:
    with closing(Tidb()) as opened:
        opened.run(f"DROP DATABASE IF EXISTS {SCHEMA}", f"CREATE DATABASE {SCHEMA}", f"USE {SCHEMA}")
        yield opened
        opened.run(f"DROP DATABASE {SCHEMA}")


def sentences(verdicts: list[TableVerdict]) -> dict[str, str]:
    return {verdict.name[1]: of_verdict(verdict).sentence for verdict in verdicts}


def mirrored(feed: FeedLake, name: tuple[str, str]) -> TableRecord:
    """The record of a table whose mirror has the rows of its changelog, which are inserts alone. Needs no Java."""
    lake = feed.lake
    record = next(t for t in lake.control.newest().tables if (t.schema, t.table) == name)
    source_table = lake.history().by_id()[record.source_table]
    first = str(source_table.versions[0].from_ts)
    columns = mirror_columns(source_table.newest.stored_columns, source_table.newest.key)
    fields = [NestedField(n, c.name, iceberg_type(c.type, count(90)), c.required) for n, c in enumerate(columns, 1)]
    ids = {c.uid: [number] for number, c in enumerate(columns, 1)}
    properties = {COLUMNS: columns_property(ids), SOURCE_TABLE: source_table.id, VERSION: first, BORN: first}
    ensure_namespace(lake.catalog, (SCHEMA,))
    mirror = lake.catalog.create_table(name, Schema(*fields), properties=properties)
    rows = lake.catalog.load_table(tuple(record.changelog)).scan(selected_fields=("id", "name")).to_arrow()
    summary = Progress(record.watermark, run_id="test").summary("feed", Progress())
    mirror.append(rows.cast(mirror.schema().as_arrow()), snapshot_properties=summary | {VERSION: first})
    return replace(record, mirror=list(name), mirror_snapshot_id=mirror.current_snapshot().snapshot_id)


@pytest.mark.skipif(not SERVER, reason="TICDC_ASSETS_TIDB names no TiDB server")
def test_complete_tables_are_compared_while_another_is_held(tidb: Tidb, tmp_path: Path):
    sink = Sink(tmp_path / "bucket")
    for name in (USERS, ORDERS, LOST):
        tidb.run(f"CREATE TABLE {name[1]} (id INT PRIMARY KEY, name VARCHAR(200))")
        sink.table(name)
    lines = {name: [] for name in (USERS, ORDERS, LOST)}
    for name, row in ((USERS, (1, "ann")), (ORDERS, (5, "hat")), (LOST, (9, "x")), (USERS, (2, "bob"))):
        ts = tidb.run(f"INSERT INTO {name[1]} VALUES (%s, %s)", values=row)
        lines[name].append(sink.insert(name, ts, *row))
    for name, written in lines.items():
        sink.file(name, 1, written)
    sink.alter(LOST, ts + 1, "ALTER TABLE `lost` FROBNICATE")
    wrong_ts = tidb.run("INSERT INTO orders VALUES (6, 'cap')")
    sink.file(ORDERS, 2, [sink.insert(ORDERS, wrong_ts, 6, "tie")])
    sink.bucket.checkpoint(wrong_ts)
    upstream = {"host": tidb.upstream.host, "port": tidb.upstream.port, "user": "root"}
    feed = sink.feed(tmp_path / "lake", upstream=upstream)
    feed.lake.publish()
    lake = feed.lake.lake
    published = lake.control.newest()
    with_mirrors = {name: mirrored(feed.lake, name) for name in (USERS, ORDERS)}
    tables = tuple(with_mirrors.get((t.schema, t.table), t) for t in published.tables)
    lake.control.record(replace(published, run_id="mirrors", recorded_at=now(), tables=tables))
    newest = lake.control.newest()
    assert (newest.run_id, newest.complete) == ("mirrors", False)

    stages: list[str | Count] = []
    found = sentences(list(verify(lake, None, on_progress=stages.append)))

    reading = [f"reading {SCHEMA}.{name} in TiDB" for name in ("orders", "users")]
    assert [stage for stage in stages if stage in reading] == reading
    assert Count(2, None, "row") in stages
    assert found["users"] == f"Equal to TiDB at {wrong_ts}: 2 rows."
    assert found["orders"].startswith(f"Differs from TiDB at {wrong_ts}: rows 1 different, in the columns name.")
    assert found["lost"].startswith("Not compared: it is stopped: ")
    # A record of changelogs alone does not have the snapshots that the mirrors reached before the run ended.
    old = replace(newest, tables=tuple(replace(t, mirror_snapshot_id=None) for t in newest.tables))
    lake.control.record(replace(old, run_id="ended", recorded_at=now()))
    assert sentences(list(verify(lake, None))) == found
    with pytest.raises(NotYetError):
        next(verify(lake, wrong_ts))


@pytest.mark.skipif(not SERVER, reason="TICDC_ASSETS_TIDB names no TiDB server")
def test_rows_of_a_table_without_a_key_are_counted_each_as_often_as_it_is_there(tidb: Tidb, tmp_path: Path):
    sink, logs, lines = Sink(tmp_path / "bucket", old_values=True), (SCHEMA, "logs"), []
    tidb.run("CREATE TABLE logs (id INT, name VARCHAR(200))")
    sink.table(logs, query="CREATE TABLE `logs` (`id` INT,`name` VARCHAR(200))", columns=NULLABLE)
    for row in ((1, "a"), (1, "a"), (1, "a"), (2, None), (3, "c")):
        ts = tidb.run("INSERT INTO logs VALUES (%s, %s)", values=row)
        lines.append(sink.insert(logs, ts, *row))
    lines.append(sink.line(logs, "D", tidb.run("DELETE FROM logs LIMIT 1"), 1, "a"))
    lines += sink.update(logs, tidb.run("UPDATE logs SET name = 'd' WHERE id = 3"), (3, "c"), (3, "d"))
    sink.file(logs, 1, lines)
    added = tidb.run("ALTER TABLE logs ADD COLUMN more INT DEFAULT 7", "INSERT INTO logs VALUES (4, 'e', 8)")
    columns = [*NULLABLE, column("more", "INT", ColumnDefault="7")]
    sink.alter(logs, added - 1, "ALTER TABLE `logs` ADD COLUMN `more` INT DEFAULT 7", columns)
    sink.file(logs, 1, [sink.insert(logs, added, 4, "e", 8, columns=("id", "name", "more"))], added - 1)
    sink.bucket.checkpoint(added)
    upstream = {"host": tidb.upstream.host, "port": tidb.upstream.port, "user": "root"}
    feed = sink.feed(tmp_path / "lake", upstream=upstream)
    feed.lake.publish()
    lake = feed.lake.lake

    assert sentences(list(verify(lake, None, chunk_rows=2))) == {"logs": f"Equal to TiDB at {added}: 5 rows."}

    gone = tidb.run("DELETE FROM logs WHERE id = 1 LIMIT 1", "UPDATE logs SET more = 9 WHERE id = 2")
    sink.bucket.checkpoint(gone)
    feed.lake.publish()
    [verdict] = verify(lake, None, chunk_rows=2)
    assert sorted(row.kind for row in verdict.comparison.differences) == ["extra", "extra", "missing"]


@pytest.fixture
def numbered(tidb: Tidb, tmp_path: Path) -> tuple[FeedLake, Sink]:
    """A lake with a mirror of ten rows, which are those of TiDB."""
    sink = Sink(tmp_path / "bucket")
    tidb.run("CREATE TABLE users (id INT PRIMARY KEY, name VARCHAR(200))")
    sink.table(USERS)
    ts = tidb.run(f"INSERT INTO users VALUES {', '.join(f'({key}, {key})' for key in range(10))}")
    sink.file(USERS, 1, [sink.insert(USERS, ts, key, str(key)) for key in range(10)])
    sink.bucket.checkpoint(ts)
    feed = sink.feed(
        tmp_path / "lake", upstream={"host": tidb.upstream.host, "port": tidb.upstream.port, "user": "root"}
    )
    feed.lake.publish()
    mirrors_recorded(feed.lake)
    return feed.lake, sink


def mirrors_recorded(feed: FeedLake) -> None:
    published = feed.lake.control.newest()
    tables = tuple(mirrored(feed, (table.schema, table.table)) for table in published.tables)
    feed.lake.control.record(replace(published, run_id=str(published.tso), recorded_at=now(), tables=tables))


@pytest.mark.skipif(not SERVER, reason="TICDC_ASSETS_TIDB names no TiDB server")
def test_samples_walk_over_all_ranges_and_each_comparison_is_kept(numbered: tuple[FeedLake, Sink]):
    lake = numbered[0].lake
    third = Extent(Sample.of("30%"))

    verdicts = [verdict for _ in range(5) for verdict in verify(lake, None, chunk_rows=2, extent=third)]

    rows = [verdict.comparison.mirror_rows for verdict in verdicts]
    assert [verdict.row.compared_ranges for verdict in verdicts] == [2] * 5
    assert sum(rows[:3]) == 10, "three samples of two of the six ranges have every row"
    kept = lake.control.verified()
    assert ([row.extent for row in kept], [row.rows for row in kept]) == (["sample"] * 5, rows[::-1])
    assert [one["tso"] for one in kept[0].ranges] == [verdicts[0].tso] * 6
    assert not any(row.ranges for row in kept[1:])
    assert of_verdict(verdicts[0]).sentence.endswith(" of 2 ranges.")


@pytest.mark.skipif(not SERVER, reason="TICDC_ASSETS_TIDB names no TiDB server")
def test_only_keys_that_changed_are_compared_once_the_whole_table_was(numbered: tuple[FeedLake, Sink], tidb: Tidb):
    feed, sink = numbered
    changed = Extent(changed=True)
    [whole] = verify(feed.lake, None, extent=changed)
    assert (whole.row.extent, whole.row.rows, len(whole.row.checksum)) == ("whole", 10, 32)

    tidb.run("UPDATE users SET name = 'other' WHERE id = 1")  # it never comes
    ts = tidb.run("INSERT INTO users VALUES (10, '10'), (11, '11')")
    sink.file(USERS, 2, [sink.insert(USERS, ts, 10, "10"), sink.insert(USERS, ts, 11, "eleven")])
    sink.bucket.checkpoint(ts)
    feed.publish()
    feed.lake.catalog.drop_table(USERS)
    mirrors_recorded(feed)

    [found] = verify(feed.lake, None, extent=changed)
    assert (found.row.extent, found.row.rows, found.row.different) == ("changed", 2, 1)
    assert [(row.kind, row.key) for row in found.comparison.differences] == [("different", (11,))]
    [again] = verify(feed.lake, None, extent=changed)
    assert again.row.rows == 2, "a comparison that found a difference is no base of another"


@pytest.mark.skipif(not SERVER, reason="TICDC_ASSETS_TIDB names no TiDB server")
def test_a_comparison_that_cannot_be_kept_is_reported(numbered: tuple[FeedLake, Sink]):
    lake = numbered[0].lake
    newer = {"ticdc.format": "99", "ticdc.format-release": "9.9"}
    lake.catalog.create_table((*lake.control.namespace, "verified"), Schema(), properties=newer)

    [verdict] = verify(lake, None)
    assert verdict.is_equal
    assert "a lake of format" in verdict.unkept


@pytest.mark.parametrize("text", ["0", "-1", "2.5", "101%", "nan", "x%"])
def test_a_sample_is_a_whole_number_or_a_percentage(text: str):
    with pytest.raises(ValueError):
        Sample.of(text)
    assert (Sample.of("0.5%").count(1000), Sample.of("7").count(3), Sample.of("1%").count(3)) == (5, 7, 1)


def verified(feed: Feed) -> dict[str, dg.AssetCheckEvaluation]:
    job = feed.definitions.resolve_job_def("shop_verify")
    result = job.execute_in_process(QUIET, raise_on_error=False)
    return {key.rpartition("/")[2]: evaluation for (key, _), evaluation in checks(result).items()}


def test_the_check_is_of_a_job_of_its_own_and_names_what_it_cannot_compare(tmp_path: Path, without_java: None):
    feed = Feed(tmp_path, upstream=NOWHERE, dagster={"verify": True}).table("shop", "users").table("shop", "orders")
    feed.table("shop", "logs", keyless=True)
    feed.rows("shop", "users", ("I", 1, "ann", 2)).checkpoint(10)
    assert EQUALS_UPSTREAM not in {name for _, name in checks(feed.run())}

    found = verified(feed)
    assert set(found) == {"users", "orders", "logs_changes"}
    assert not found["users"].passed
    assert found["users"].severity is dg.AssetCheckSeverity.WARN
    assert found["users"].description.startswith("Not compared: ")

    feed.statement("shop", "orders", "ALTER TABLE `orders` FROBNICATE", 12).checkpoint(20).run()
    assert verified(feed)["orders"].description.startswith("Not compared: it is stopped: ")
    assert verified(feed)["users"].description == "Not compared: its mirror is behind its changelog."


def test_a_schedule_compares_samples_by_the_same_job(tmp_path: Path, without_java: None):
    feed = Feed(tmp_path, upstream=NOWHERE, dagster={"verify": True}).table("shop", "users").checkpoint(10)
    repository = feed.definitions.get_repository_def()
    with dg.instance_for_test() as instance, dg.build_schedule_context(instance=instance) as context:
        [request] = repository.get_schedule_def("shop_verify_every_night").evaluate_tick(context).run_requests

    job = repository.get_job("shop_verify")
    assert job.execute_in_process(request.run_config, raise_on_error=False).success
    [settings] = request.run_config["ops"].values()
    settings["config"]["sample"] = "many"
    assert not job.execute_in_process(request.run_config, raise_on_error=False).success


def test_without_its_setting_there_is_no_verify_job(tmp_path: Path):
    feed = Feed(tmp_path, upstream=NOWHERE).table("shop", "users").checkpoint(10)

    names = [job.name for job in feed.definitions.get_repository_def().get_all_jobs()]
    assert "shop_verify" not in names


def test_a_table_that_can_never_be_compared_passes_and_a_difference_fails():
    refused = TableVerdict("i", ("s", "t"), (), 7, None, "its key has a floating point column", is_comparable=False)

    assert of_verdict(refused).passed
    assert not of_verdict(replace(refused, is_comparable=True)).passed
    assert of_verdict(replace(refused, is_comparable=True)).warns
