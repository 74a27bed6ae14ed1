"""Tables that `tables` asks for only later, or under another name: all that came before is there, or they say what is
missing."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from ticdc_assets.errors import LakeError, SourceError
from ticdc_assets.failpoints import Failpoint
from ticdc_assets_tests.deliveries.wires import CanalJson, Wire
from ticdc_assets_tests.fixtures import Workload, workloads
from ticdc_assets_tests.pipeline.faults.trouble import listening
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.small_feeds import Sink, hand_made
from ticdc_assets_tests.pipeline.small_streams import SmallStream, UndatedCanalJson, at, ids, shape, states

A, B = ("s", "a"), ("s", "b")
T, GHOST, OLD = ("s", "t"), ("s", "_t_gho"), ("s", "_t_del")
NOT_GHOSTS = ["s.*", "!s._*"]
TABLES = shape("a"), shape("b")  # A and B in a stream

STREAMS = {"open", "simple-json", "simple-avro", "canal-json", "canal-json-tidb", "avro", "avro-ext", "debezium-tidb"}
BUCKETS = {"storage-csv", "storage-csv-no-commit-ts", "storage-csv-keyless", "storage-canal-json-tidb"}
SOME = [w for w in workloads(seed="seed1") if w.root.parent.name in STREAMS | BUCKETS]


def two_tables(folder: Path, wire: Wire) -> SmallStream:
    made = SmallStream(folder, wire)
    for table in TABLES:
        made.create(1, table)
        made.put(5, table, 1)
        made.put(6, table, 2)
    made.watermark(9)
    return made


# -- tables that are asked for later ----------------------------------------------------------------------------------


@pytest.mark.variants(4)
@pytest.mark.parametrize("workload", SOME, ids=lambda w: w.name)
def test_a_table_asked_for_after_all_was_consumed_holds_what_one_asked_for_at_once_does(
    workload: Workload, tmp_path: Path
):
    whole = FeedLake(workload, tmp_path / "whole")
    whole.publish()
    names = sorted({(r.schema, r.table) for r in whole.records().values() if r.changelog})
    FeedLake(workload, tmp_path / "late", tables=[".".join(names[0])]).publish()
    late = FeedLake(workload, tmp_path / "late", tables=["*.*"])

    late.publish()

    assert {n: (r.state, r.watermark) for n, r in late.records().items()} == {
        n: (r.state, r.watermark) for n, r in whole.records().items()
    }
    assert late.changes() == whole.changes()
    assert late.publish() is None


@pytest.mark.parametrize(
    "wire",
    [CanalJson(), UndatedCanalJson()],
    ids=["kafka://h/feed?protocol=canal-json&enable-tidb-extension=true", "kafka://h/feed?protocol=canal-json"],
)
def test_a_table_that_was_not_selected_during_a_run_misses_nothing_of_the_stream(tmp_path: Path, wire: Wire):
    stream = two_tables(tmp_path, wire)
    stream.lake(tables=["s.*"]).publish()
    for tick, tables in ((10, "s.a"), (20, "s.*")):
        for table in TABLES:
            stream.put(tick, table, tick)
        stream.watermark(tick + 5)
        lake = stream.lake(tables=[tables])
        lake.publish()

    assert ids(lake) == {"a": [1, 2, 10, 20], "b": [1, 2, 10, 20]}
    assert states(lake) == {"a": "live", "b": "live"}
    assert lake.publish() is None


@pytest.mark.parametrize("gone", [1, 5])
def test_a_stream_that_does_not_reach_back_holds_the_late_table_and_no_other(tmp_path: Path, gone: int):
    stream = two_tables(tmp_path, CanalJson())
    stream.lake(tables=["s.a"]).publish()
    capture = stream.capture / "messages.jsonl"
    lines = capture.read_text().splitlines(keepends=True)
    capture.write_text("".join(lines[gone:]))
    for table in TABLES:
        stream.put(10, table, 3)
    stream.watermark(15)
    lake = stream.lake(tables=["s.*"])

    for _ in range(2):
        lake.publish()
        late, other = lake.records()[B], lake.records()[A]
        assert (late.state, late.watermark, other.watermark) == ("stopped", 0, at(15))
        assert (
            f"expected the messages of feed[0] from offset 0 on, since `tables` selects s.b only now, found those "
            f"from {gone} on" in late.note
        )
        assert ids(lake) == {"a": [1, 2, 3]}
        assert lake.publish() is None

    capture.write_text("".join(lines[:gone]) + capture.read_text())
    lake.publish()  # though no message is new
    assert ids(lake) == {"a": [1, 2, 3], "b": [1, 2, 3]}
    assert lake.publish() is None
    stream.put(20, shape("a"), 4)
    stream.watermark(25)
    lake.publish()
    assert ids(lake) == {"a": [1, 2, 3, 4], "b": [1, 2, 3]}
    assert lake.records()[B].watermark == at(25)


def test_a_capture_that_began_in_the_middle_of_its_topic_is_read_again_from_there(tmp_path: Path):
    stream = SmallStream(tmp_path, begins_at=100)
    for table in TABLES:
        stream.create(1, table)
        stream.put(5, table, 1)
    stream.watermark(9)
    stream.lake(tables=["s.a"]).publish()
    lake = stream.lake(tables=["s.*"])

    lake.publish()

    assert ids(lake) == {"a": [1], "b": [1]}


# -- buckets -----------------------------------------------------------------------------------------------------------


def bucket(folder: Path, commit_ts: bool = True) -> Sink:
    sink = Sink(folder / "bucket", commit_ts=commit_ts)
    for name in (A, B):
        sink.table(name)
        sink.file(name, 1, [sink.insert(name, 110, 1, "one"), sink.insert(name, 120, 2, "two")])
    return sink


def more(sink: Sink, number: int, checkpoint: int) -> None:
    for name in (A, B):
        sink.file(name, number, [sink.insert(name, checkpoint - 100, number, "more")])
    sink.bucket.checkpoint(checkpoint)


@pytest.mark.parametrize("commit_ts", [True, False])
def test_a_table_asked_for_later_is_whole_whenever_the_run_that_reads_it_ends(tmp_path: Path, commit_ts: bool):
    sink = bucket(tmp_path, commit_ts)
    sink.feed(tmp_path / "lake", tables=["s.a"]).run()
    more(sink, 2, 2000)
    for moment in (Failpoint.SCHEMAS_KEPT, Failpoint.AFTER_CHANGELOG_COMMIT, Failpoint.BEFORE_CURSOR):
        feed = sink.feed(tmp_path / "lake", tables=["s.*"])
        with listening(ended_at(moment)), pytest.raises(LakeError):
            feed.run()

    feed.run()

    assert feed.found() == feed.expected()
    assert {feed.record(name).watermark for name in (A, B)} == {2000}
    more(sink, 3, 3000)
    feed = sink.feed(tmp_path / "lake", tables=["s.*"])
    feed.run()
    assert feed.found() == feed.expected()
    assert feed.run() is None


def ended_at(moment: Failpoint):
    def end(hit: Failpoint) -> None:
        if hit is moment:
            raise LakeError("here", "to go on", "the end", "Run again.")

    return end


def test_a_table_that_was_not_selected_during_a_run_misses_nothing_of_the_bucket(tmp_path: Path):
    sink = bucket(tmp_path)
    for number, tables in ((2, "s.*"), (3, "s.a"), (4, "s.*")):
        more(sink, number, number * 1000)
        feed = sink.feed(tmp_path / "lake", tables=[tables])
        feed.run()

    assert feed.found() == feed.expected()
    assert feed.record(B).watermark == 4000


def test_without_commit_ts_such_a_table_is_held_until_its_tables_are_dropped(tmp_path: Path):
    sink = bucket(tmp_path, commit_ts=False)
    for number, tables in ((2, "s.*"), (3, "s.a"), (4, "s.*")):
        more(sink, number, number * 1000)
        feed = sink.feed(tmp_path / "lake", tables=[tables])
        feed.run()
    feed.run()

    assert (feed.state(A), feed.state(B), feed.record(B).watermark) == ("live", "stopped", 0)
    assert "Without commit_ts it is not known which ones: read it in a changefeed of its own" in feed.note(B)
    assert feed.found() == feed.expected(A)
    feed.lake.lake.catalog.drop_table(("s__changes", "b"))
    feed.run()
    assert feed.found() == feed.expected()
    assert {feed.state(name) for name in (A, B)} == {"live"}


def test_without_commit_ts_a_table_is_held_whose_name_another_took_that_was_asked_for(tmp_path: Path):
    """Its files lie in one folder with those of the other."""
    sink = bucket(tmp_path, commit_ts=False)
    sink.feed(tmp_path / "lake", tables=["s.a"]).run()
    sink.alter(OLD, 1100, "RENAME TABLE `s`.`b` TO `s`.`_t_del`")
    sink.alter(B, 1200, "RENAME TABLE `s`.`a` TO `s`.`b`")
    sink.file(B, 1, [sink.insert(B, 1300, 3, "three")], version=1200)
    sink.rows[-1] = sink.rows[-1]._replace(table=A[1])
    sink.bucket.checkpoint(2000)
    sink.feed(tmp_path / "lake", tables=["s.a"]).run()
    feed = sink.feed(tmp_path / "lake", tables=["s.*"])

    feed.run()

    assert (feed.state(B), feed.state(OLD)) == ("live", "stopped")
    assert "cannot be distinguished from those of the table that took its name" in feed.note(OLD)
    assert feed.found() == feed.expected(A)


@pytest.mark.variants(1)
@pytest.mark.parametrize("commit_ts", [True, False])
@pytest.mark.parametrize("asked_first", ["nobody.*", "s.b"])
def test_another_bucket_in_the_place_of_the_right_one_passes_nothing_of_a_late_table(
    tmp_path: Path, asked_first: str, commit_ts: bool
):
    """As with a wrong `sink_uri`, though it has come further."""
    right, wrong = Sink(tmp_path / "right", commit_ts=commit_ts), Sink(tmp_path / "wrong", 2000, commit_ts)
    for sink, names in ((right, (A, B)), (wrong, (B,))):
        for name in names:
            sink.table(name)
            sink.file(name, 1, [sink.insert(name, 110, 1, "one")])
    right.feed(tmp_path / "lake", tables=[asked_first]).run()

    feed = wrong.feed(tmp_path / "lake")
    with listening(ended_at(Failpoint.CHANGELOGS_MADE)), pytest.raises(LakeError):
        feed.run()
    for checkpoint in (2000, 2500):
        wrong.bucket.checkpoint(checkpoint)
        feed.run()

    assert (feed.state(A), feed.record(A).watermark) == ("stopped", 0)
    assert "expected a folder of s.a" in feed.note(A)
    right.bucket.checkpoint(3000)
    feed = right.feed(tmp_path / "lake")
    feed.run()
    assert (feed.state(A), feed.record(A).watermark) == ("live", 3000)
    assert feed.found(A) == feed.expected(A)


def test_a_bucket_without_a_checkpoint_in_the_place_of_one_that_had_it_is_refused(tmp_path: Path):
    right, empty = Sink(tmp_path / "right"), tmp_path / "empty"
    right.table(A)
    right.file(A, 1, [right.insert(A, 110, 1, "one")])
    right.feed(tmp_path / "lake", tables=["nobody.*"]).run()
    empty.mkdir()

    with pytest.raises(SourceError, match=r"complete up to 1000 .* Check that `sink_uri`"):
        hand_made(empty, tmp_path / "lake", "csv", Counter(), {}).run()

    feed = right.feed(tmp_path / "lake")
    feed.run()
    assert feed.found() == feed.expected()


# -- names that are asked for ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("run_between", [True, False])
def test_a_table_that_is_renamed_to_a_name_asked_for_is_whole(tmp_path: Path, run_between: bool):
    """As tools do that change a schema online: they fill a copy under a name that nobody asks for."""
    stream, t, ghost = SmallStream(tmp_path), shape("t"), shape("_t_gho")
    for number, table in enumerate((t, ghost)):
        stream.create(1 + number, table)
        stream.put(5, table, 1)
        stream.put(5, table, 2)
    stream.watermark(9)
    lake = stream.lake(tables=NOT_GHOSTS)
    if run_between:
        lake.publish()
        assert ids(lake) == {"t": [1, 2]}
    stream.rename(10, t, shape("_t_del"))
    stream.rename(11, ghost, t)
    stream.put(15, t, 3)
    stream.watermark(19)

    lake.publish()

    assert ids(lake) == {"_t_gho": [1, 2], "t": [1, 2, 3]}
    assert {lake.records()[name].watermark for name in (T, OLD)} == {at(19)}
    assert lake.publish() is None


@pytest.mark.variants(1)
@pytest.mark.parametrize("commit_ts", [True, False])
@pytest.mark.parametrize("run_between", [True, False])
def test_a_table_that_is_renamed_in_a_bucket_to_a_name_asked_for_is_whole(
    tmp_path: Path, run_between: bool, commit_ts: bool
):
    sink = Sink(tmp_path / "bucket", commit_ts=commit_ts)
    for name in (T, GHOST):
        sink.table(name)
        sink.file(name, 1, [sink.insert(name, 110, 1, "one"), sink.insert(name, 120, 2, "two")])
    if run_between:
        feed = sink.feed(tmp_path / "lake", tables=NOT_GHOSTS)
        feed.run()
        assert feed.found() == feed.expected(T)
    sink.alter(OLD, 1200, "RENAME TABLE `s`.`t` TO `s`.`_t_del`")
    sink.alter(T, 1201, "RENAME TABLE `s`.`_t_gho` TO `s`.`t`")
    sink.file(T, 1, [sink.insert(T, 1310, 3, "three")], version=1201)
    if not commit_ts:  # such a change is found by its table's first name
        sink.rows[-1] = sink.rows[-1]._replace(table=GHOST[1])
    sink.bucket.checkpoint(2000)
    feed = sink.feed(tmp_path / "lake", tables=NOT_GHOSTS)

    feed.run()

    assert feed.found() == feed.expected()
    assert {feed.record(name).watermark for name in (T, OLD)} == {2000}


def test_a_table_that_is_renamed_out_of_what_is_asked_for_goes_on(tmp_path: Path):
    stream, t, old = SmallStream(tmp_path), shape("t"), shape("_t_del")
    stream.create(1, t)
    stream.put(5, t, 1)
    stream.watermark(9)
    lake = stream.lake(tables=NOT_GHOSTS)
    lake.publish()
    stream.put(10, t, 2)
    stream.rename(11, t, old)
    stream.put(15, old, 3)
    stream.watermark(19)

    lake.publish()

    assert ids(lake) == {"t": [1, 2], "_t_del": [3]}
    record = lake.records()[OLD]
    assert (record.state, record.watermark) == ("live", at(19))
