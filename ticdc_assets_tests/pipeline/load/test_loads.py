"""A dump of the true tables at a TSO, then the stream: changelogs and mirrors have what is true."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ticdc_assets import spark
from ticdc_assets.errors import ConfigError, SourceError
from ticdc_assets.failpoints import LISTENERS, Failpoint
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.run.load import load
from ticdc_assets.schema.history.source_table import fold_name
from ticdc_assets.spark import SparkWorkers
from ticdc_assets.tables.iceberg.jvm import JvmCatalog
from ticdc_assets_tests.fixtures import Workload
from ticdc_assets_tests.pipeline.lakes import FeedLake, expected_changes
from ticdc_assets_tests.pipeline.load.dumps import write_dump
from ticdc_assets_tests.pipeline.load.loading import at, loaded, middle, source_of, workload
from ticdc_assets_tests.pipeline.small_feeds import BrokenRunError
from ticdc_assets_tests.truth import comparable, lake_value, truth_types


def truth_of_load(workload: Workload, ts: int) -> Counter:
    """The rows of the dump, by table."""
    return Counter(
        (entry["schema"], entry["table"], _image(row, truth_types(entry), workload.time_zone))
        for entry in at(workload, ts)
        for row in entry["rows"]
    )


def _image(row: dict, types: dict, zone: str) -> tuple:
    return tuple(sorted((name, comparable(lake_value(t, row.get(name), zone))) for name, t in types.items()))


def differences(lake: FeedLake, ts: int, old_values: bool) -> tuple[Counter, Counter]:
    """What the changelogs lack, and what they have too much: of the dump up to `ts`, of the stream above it."""
    found = lake.changes()
    dumped = truth_of_load(lake.workload, ts)
    rows = Counter(
        {(c.schema, c.table, c.new): n for c, n in found.items() if c.op == "R" and c.commit_ts == ts and c.old is None}
    )
    wanted = Counter({c: n for c, n in expected_changes(lake.workload, old_values).items() if c.commit_ts > ts})
    stream = Counter({c: n for c, n in found.items() if c.op != "R"})
    return (dumped - rows) + (wanted - stream), (rows - dumped) + (stream - wanted)


@pytest.mark.parametrize(
    ("variant", "kind", "old_values"),
    [
        ("storage-csv", "csv", False),
        ("open", "sql", True),
        pytest.param("storage-canal-json-tidb", "sql", True, marks=pytest.mark.matrix),
        pytest.param("simple-json", "csv", True, marks=pytest.mark.matrix),
        pytest.param("simple-avro", "sql", True, marks=pytest.mark.matrix),
        pytest.param("canal-json-tidb", "csv", True, marks=pytest.mark.matrix),
    ],
)
def test_the_stream_goes_on_from_a_dump(tmp_path: Path, variant: str, kind: str, old_values: bool):
    of = workload(variant)
    ts = middle(of)
    dump = write_dump(tmp_path / "dump", at(of, ts), ts, kind)
    lake = FeedLake(of, tmp_path / "lake")

    report = loaded(lake, source_of(lake, dump, ts, round_bytes=1))
    loaded_tables = lake.records()
    lake.publish()

    assert report.errors == {}
    assert sum(report.rows.values()) == sum(len(entry["rows"]) for entry in at(of, ts))
    assert {record.watermark for record in loaded_tables.values()} == {ts}
    assert differences(lake, ts, old_values) == (Counter(), Counter())
    assert {record.state for record in lake.records().values()} == {"live"}
    assert lake.publish() is None


def test_a_load_that_was_killed_continues_with_the_tables_that_are_missing(tmp_path: Path):
    of = workload("storage-csv")
    ts = middle(of)
    dump = write_dump(tmp_path / "dump", at(of, ts), ts)
    lake = FeedLake(of, tmp_path / "lake")

    for failpoint in (
        Failpoint.SCHEMAS_KEPT,
        Failpoint.DECODED,
        Failpoint.AFTER_CHANGELOG_COMMIT,
        Failpoint.AFTER_CURSOR,
    ):
        with pytest.raises(BrokenRunError), ends_at(failpoint):
            loaded(lake, source_of(lake, dump, ts, round_bytes=1))
        with pytest.raises(SourceError, match=f"expected a finished initial load, found one at {ts}"):
            lake.publish()
    with pytest.raises(
        ConfigError, match=f"expected the dump at {ts}, whose load has not ended, found one at {ts + 1}"
    ):
        loaded(lake, source_of(lake, dump, ts + 1))
    report = loaded(lake, source_of(lake, dump, ts))
    snapshots = lake.snapshots()
    again = loaded(lake, source_of(lake, dump, ts))

    assert 0 < sum(report.rows.values()) < sum(len(entry["rows"]) for entry in at(of, ts))
    assert (again.rows, lake.snapshots()) == ({}, snapshots)
    lake.publish()
    assert differences(lake, ts, old_values=False) == (Counter(), Counter())
    assert loaded(lake, source_of(lake, dump, ts)).rows == {}
    with pytest.raises(ConfigError, match=f"expected no rows, or those of the dump at {ts + 1}, found a load at {ts}"):
        loaded(lake, source_of(lake, dump, ts + 1))


def test_a_table_whose_definition_is_not_understood_is_held_and_the_others_are_loaded(tmp_path: Path):
    of = workload("storage-csv")
    ts = middle(of)
    dump = write_dump(tmp_path / "dump", at(of, ts), ts)
    lake = FeedLake(of, tmp_path / "lake")
    broken, *others = sorted(dump.glob("*-schema.sql"))
    name = broken.name.removesuffix("-schema.sql")
    broken.write_text(broken.read_text().replace("CREATE TABLE", "CREATE TABLE NO SUCH"))

    report = loaded(lake, source_of(lake, dump, ts))
    lake.publish()

    assert list(report.errors) == [name]
    assert broken.name in report.errors[name]
    assert len(others) == len(report.rows)
    states = {f"{record.schema}.{record.table}": record for record in lake.records().values()}
    assert states[name].state == "stopped"
    assert "the rows of the dump are not loaded" in states[name].note
    assert {record.state for other, record in states.items() if other != name} == {"live"}
    assert not [change for change in lake.changes() if (change[0], change[1]) == tuple(name.split("."))]


def test_a_dump_of_which_no_table_is_understood_holds_them_all(tmp_path: Path):
    of = workload("storage-csv")
    ts = middle(of)
    dump = write_dump(tmp_path / "dump", at(of, ts), ts)
    lake = FeedLake(of, tmp_path / "lake")
    for broken in dump.glob("*-schema.sql"):
        broken.write_text(broken.read_text().replace("CREATE TABLE", "CREATE TABLE NO SUCH"))

    report = loaded(lake, source_of(lake, dump, ts))
    again = loaded(lake, source_of(lake, dump, ts))
    lake.publish()

    assert report.rows == again.rows == {}
    assert len(report.errors) == len(at(of, ts))
    held = [record for record in lake.records().values() if f"{record.schema}.{record.table}" in report.errors]
    assert {record.state for record in held} == {"stopped"}
    assert all("the rows of the dump are not loaded" in record.note for record in held)
    assert not [change for change in lake.changes() if f"{change.schema}.{change.table}" in report.errors]


@contextmanager
def ends_at(failpoint: Failpoint) -> Iterator[None]:
    def end(moment: Failpoint) -> None:
        if moment is failpoint:
            raise BrokenRunError

    LISTENERS.append(end)
    try:
        yield
    finally:
        LISTENERS.remove(end)


def test_a_table_with_a_damaged_file_is_not_loaded_and_the_others_are(tmp_path: Path):
    of = workload("storage-csv")
    ts = middle(of)
    dump = write_dump(tmp_path / "dump", at(of, ts), ts)
    name, damaged = "users", next(dump.glob("*.users.000000000.sql"))
    whole = damaged.read_bytes()
    damaged.write_bytes(whole.replace(b",NULL", b",'x'", 1)[:-2] + b";\n")
    lake = FeedLake(of, tmp_path / "lake")

    first = loaded(lake, source_of(lake, dump, ts))
    damaged.write_bytes(whole)
    second = loaded(lake, source_of(lake, dump, ts))
    lake.publish()

    [(table, sentence)] = first.errors.items()
    assert table.endswith(f".{name}")
    assert damaged.name in sentence
    assert set(second.rows) == {i for i in second.rows if f".{name}@" in i} != set()
    assert differences(lake, ts, old_values=False) == (Counter(), Counter())


def test_a_table_that_is_left_out_is_read_from_the_stream_alone(tmp_path: Path):
    of = workload("storage-csv")
    ts = middle(of)
    names = {(entry["schema"], entry["table"]) for entry in at(of, ts)}
    [left_out] = [name for name in names if name[1] == "counters"]
    dump = write_dump(tmp_path / "dump", at(of, ts), ts)
    lake = FeedLake(of, tmp_path / "lake")

    loaded(lake, source_of(lake, dump, ts, without=frozenset({fold_name(*left_out)})))
    lake.publish(until=ts - 1)
    behind = {name: (record.state, record.watermark) for name, record in lake.records().items()}
    lake.publish()

    with pytest.raises(ConfigError, match="expected only tables that its load has, found a dump that also has App_DB"):
        loaded(lake, source_of(lake, dump, ts))
    assert behind[left_out] == ("waiting", 0)
    assert {state for name, state in behind.items() if name != left_out} == {("live", ts)}
    found = Counter({c: n for c, n in lake.changes().items() if (c.schema, c.table) == left_out})
    assert found == Counter({c: n for c, n in expected_changes(of, False).items() if (c.schema, c.table) == left_out})


def test_a_dump_comes_before_the_first_run(tmp_path: Path):
    of = workload("storage-csv")
    ts = middle(of)
    dump = write_dump(tmp_path / "dump", at(of, ts), ts)
    lake = FeedLake(of, tmp_path / "lake")
    lake.publish()

    with pytest.raises(ConfigError, match="found none: its stream was read before"):
        loaded(lake, source_of(lake, dump, ts))


def test_a_stream_without_commit_ts_cannot_be_joined_to_a_dump(tmp_path: Path):
    of = workload("storage-csv-no-commit-ts")
    ts = middle(of)
    lake = FeedLake(of, tmp_path / "lake")

    with pytest.raises(ConfigError, match="expected a stream whose rows can be compared with the dump's TSO"):
        loaded(lake, source_of(lake, write_dump(tmp_path / "dump", at(of, ts), ts), ts))


def test_a_run_before_the_changefeed_has_written_anything_has_nothing_to_do(tmp_path: Path):
    of = workload("storage-csv")
    ts = middle(of)
    (tmp_path / "bucket").mkdir()
    lake = FeedLake(of, tmp_path / "lake", tmp_path / "bucket")

    loaded(lake, source_of(lake, write_dump(tmp_path / "dump", at(of, ts)[:2], ts), ts))

    assert lake.publish() is None
    assert lake.complete_tso() == ts


@pytest.mark.spark
def test_mirrors_have_the_rows_of_the_dump_and_of_the_stream(tmp_path: Path):
    of = workload("storage-canal-json-tidb")
    ts = middle(of)
    dump = write_dump(tmp_path / "dump", at(of, ts), ts, "csv")
    lake = FeedLake(of, tmp_path / "lake")
    session = spark.session(lake.config)
    opened = Lake(lake.config, lake.config.changefeed("feed"))

    report = load(
        opened, source_of(lake, dump, ts), lambda: SparkWorkers(session), lambda: JvmCatalog(session, lake.catalog_name)
    )
    at_load = (lake.differences(ts), lake.recorded_differences(ts))
    lake.run()

    assert report.errors == {}
    assert report.record is not None
    assert (report.record.tso, report.record.complete) == (ts, True)
    assert at_load == ([], [])
    assert lake.differences(max(entry["ts"] for entry in of.truth)) == []
