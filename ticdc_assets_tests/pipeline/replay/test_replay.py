"""Replay adds quarantined records that can be decoded now, or were corrected, to their tables, each once."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitStateUnknownException

from ticdc_assets.assets.checks.results import nothing_quarantined
from ticdc_assets.errors import NotYetError, StaleRunError
from ticdc_assets.pipeline.replay import run as replay_module
from ticdc_assets.pipeline.replay.run import ReplayReport, ReplayRequest, Resolution, replay
from ticdc_assets.tables.progress import progress_of
from ticdc_assets_tests.deliveries.wires import CanalJson, OpenProtocol, Wire
from ticdc_assets_tests.fixtures import Workload, workloads
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.small_feeds import ID, Feed, JsonSink, Sink, column
from ticdc_assets_tests.pipeline.small_streams import SmallStream, ids, shape

T = ("s", "t")
FILE = "s/t/100/CDC00000000000000000001.csv"


@pytest.fixture
def sink(tmp_path: Path) -> Sink:
    made = Sink(tmp_path / "bucket")
    made.table(T)
    return made


def again(feed: Feed | FeedLake, **request) -> ReplayReport:
    lake = feed.lake.lake if isinstance(feed, Feed) else feed.lake
    return replay(lake, ReplayRequest(**request))


def resolutions(report: ReplayReport) -> list[tuple[int, str]]:
    return [(outcome.record.line, str(outcome.resolution)) for outcome in report.outcomes]


def assert_all_is_well(feed: Feed) -> None:
    """Everything that happened is there once, and the check is green; another replay finds nothing to do."""
    assert feed.found() == feed.expected()
    assert nothing_quarantined(feed.quarantined(), "").passed
    snapshots = feed.lake.snapshots()
    assert again(feed).outcomes == []
    assert feed.run() is None
    assert feed.lake.snapshots() == snapshots


# -- storage ----------------------------------------------------------------------------------------------------------


def test_a_corrected_line_of_the_middle_is_published_as_if_it_had_never_been_bad(sink: Sink, tmp_path: Path):
    lines = [sink.insert(T, 110 + n, n, "eins") for n in range(3)]
    corrected = sink.insert(T, 111, 7, "lost a quote")
    sink.file(T, 1, [lines[0], corrected.replace(b'quote"', b"quote"), *lines[1:]])
    feed = sink.feed(tmp_path / "lake")
    feed.run()
    assert not nothing_quarantined(feed.quarantined(), "").passed

    before = again(feed)
    report = again(feed, only=frozenset({(FILE, 1)}), corrected={(FILE, 1): corrected})

    assert [outcome.resolution for outcome in before.outcomes] == [Resolution.STILL_BAD]
    assert before.outcomes[0].reason.startswith(f"{FILE}, record 1: ")
    assert resolutions(report) == [(1, "replayed")]
    assert list(report.added.values()) == [1]
    assert_all_is_well(feed)
    [record] = feed.lake.lake.control.ever_quarantined()
    assert (record.resolution, record.resolved_by) == ("replayed", report.run_id)


@pytest.mark.parametrize("commit_ts", [True, False])
def test_a_replay_into_a_changelog_without_a_change_has_the_watermark_of_the_record(tmp_path: Path, commit_ts: bool):
    sink = Sink(tmp_path / "bucket", commit_ts=commit_ts)
    sink.table(T)
    sink.file(T, 1, [sink.insert(T, 110, 1, "eins")])
    csv = {"delimiter": "|", "include-commit-ts": commit_ts}
    sink.feed(tmp_path / "lake", config={"sink": {"date-separator": "none", "csv": csv}}).run()
    feed = sink.feed(tmp_path / "lake")

    again(feed)

    recorded = feed.record(T)
    table = feed.lake.lake.catalog.load_table(tuple(recorded.changelog or ()))
    assert progress_of(table).watermark == recorded.watermark == sink.checkpoint
    assert_all_is_well(feed)


def test_a_record_without_a_column_is_taken_in_once_the_config_says_that_it_is_left_out(tmp_path: Path):
    sink = Sink(tmp_path / "bucket")
    sink.table(T)
    short = sink.line(T, "I", 115, 7)
    sink.file(T, 1, [sink.insert(T, 110, 1, "one"), short])
    sink.insert(T, 115, 7, None)
    sink.feed(tmp_path / "lake").run()
    selectors = [{"matcher": ["s.t"], "columns": ["*", "!name"]}]
    csv = {"include-commit-ts": True, "output-old-value": False}
    config = {"sink": {"date-separator": "none", "csv": csv, "column-selectors": selectors}}
    feed = sink.feed(tmp_path / "lake", config=config)
    assert [record.line for record in feed.quarantined()] == [1]

    report = again(feed)

    assert resolutions(report) == [(1, "replayed")]
    assert_all_is_well(feed)


def test_a_record_that_the_config_makes_readable_is_taken_in_as_it_is(tmp_path: Path):
    sink = Sink(tmp_path / "bucket")
    sink.table(T, columns=[ID, column("v", "DATETIME")], query=" ")
    sink.file(T, 1, [sink.insert(T, 110, 1, None, columns=("id", "v"))])
    zero = sink.line(T, "I", 115, 7, "0000-00-00 00:00:00")
    sink.insert(T, 115, 7, None, columns=("id", "v"))
    sink.file(T, 2, [zero])
    sink.feed(tmp_path / "lake", zero_dates="error").run()
    feed = sink.feed(tmp_path / "lake", zero_dates="null")

    report = again(feed)

    assert resolutions(report) == [(0, "replayed")]
    assert_all_is_well(feed)


def test_a_replay_that_ended_before_it_could_say_so_adds_nothing_the_second_time(
    sink: Sink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    corrected = sink.insert(T, 115, 7, "b")
    sink.file(T, 1, [sink.insert(T, 110, 1, "eins"), corrected.replace(b"115,7", b'115,"sieben"')])
    feed = sink.feed(tmp_path / "lake")
    feed.run()
    request = {"corrected": {(FILE, 1): corrected}}
    with monkeypatch.context() as killed:
        killed.setattr(replay_module, "_record", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            again(feed, **request)
    assert len(feed.quarantined()) == 1

    report = again(feed, **request)

    assert (resolutions(report), sum(report.added.values())) == ([(1, "replayed")], 0)
    assert_all_is_well(feed)


def test_a_replay_that_ended_after_it_resolved_its_record_is_repeated_with_the_same_bytes_alone(
    sink: Sink, tmp_path: Path
):
    corrected = sink.insert(T, 115, 7, "b")
    sink.file(T, 1, [sink.insert(T, 110, 1, "eins"), corrected.replace(b"115,7", b'115,"sieben"')])
    feed = sink.feed(tmp_path / "lake")
    feed.run()
    only = frozenset({(FILE, 1)})
    again(feed, only=only, corrected={(FILE, 1): corrected})
    snapshots = feed.lake.snapshots()

    report = again(feed, only=only, corrected={(FILE, 1): corrected})

    assert (resolutions(report), sum(report.added.values())) == ([(1, "replayed")], 0)
    for other in (corrected.replace(b'"b"', b'"c"'), b"rubbish"):
        with pytest.raises(NotYetError, match="one that was replayed before"):
            again(feed, only=only, corrected={(FILE, 1): other})
    assert feed.lake.snapshots() == snapshots
    assert_all_is_well(feed)


def test_a_replay_whose_answer_was_lost_before_another_run_went_on_keeps_what_it_brought_back(
    sink: Sink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    corrected = sink.insert(T, 115, 7, "b")
    sink.file(T, 1, [sink.insert(T, 110, 1, "eins"), corrected.replace(b"115,7", b'115,"sieben"')])
    sink.feed(tmp_path / "lake").run()
    sink.file(T, 2, [sink.insert(T, 1100, 8, "acht")])
    feed = sink.feed(tmp_path / "lake")
    commit = SqlCatalog.commit_table

    def loses_the_answer(*arguments: Any) -> None:
        commit(*arguments)
        monkeypatch.setattr(SqlCatalog, "commit_table", commit)
        sink.bucket.checkpoint(2000)
        sink.feed(tmp_path / "lake").run()
        raise CommitStateUnknownException("no answer")

    monkeypatch.setattr(SqlCatalog, "commit_table", loses_the_answer)
    request = {"corrected": {(FILE, 1): corrected}}

    with pytest.raises(StaleRunError):
        again(feed, **request)

    report = again(feed, **request)
    assert (resolutions(report), sum(report.added.values())) == ([(1, "replayed")], 0)
    assert_all_is_well(feed)


def test_a_change_that_was_sent_again_meanwhile_is_not_added(sink: Sink, tmp_path: Path):
    whole = sink.insert(T, 115, 7, "b")
    sink.file(T, 1, [sink.insert(T, 110, 1, "eins"), whole.replace(b"115,7", b'115,"sieben"')])
    sink.file(T, 2, [whole])
    feed = sink.feed(tmp_path / "lake")
    feed.run()

    report = again(feed, corrected={(FILE, 1): whole})

    assert (resolutions(report), sum(report.added.values())) == ([(1, "replayed")], 0)
    assert_all_is_well(feed)


def test_a_table_without_a_key_gets_its_row_back_once_among_equal_ones(sink: Sink, tmp_path: Path):
    name = ("s", "k")
    sink.table(name, query="CREATE TABLE `k` (`id` INT,`name` VARCHAR(200))")
    rows = [sink.insert(name, 110, 1, "gleich") for _ in range(3)]
    sink.file(name, 1, [rows[0], rows[1].replace(b"110,1,", b'110,"eins",'), rows[2]])
    feed = sink.feed(tmp_path / "lake")
    feed.run()
    path = FILE.replace("/t/", "/k/")

    again(feed, corrected={(path, 1): rows[1]})

    assert_all_is_well(feed)


def test_equal_rows_of_a_table_without_a_key_come_back_each_once(sink: Sink, tmp_path: Path):
    name = ("s", "k")
    sink.table(name, query="CREATE TABLE `k` (`id` INT,`name` VARCHAR(200))")
    rows = [sink.insert(name, 110, 1, "gleich") for _ in range(4)]
    bad = rows[0].replace(b"110,1,", b'110,"eins",')
    sink.file(name, 1, [rows[0], bad, rows[2], bad])
    feed = sink.feed(tmp_path / "lake")
    feed.run()
    path = FILE.replace("/t/", "/k/")
    corrected = {(path, 1): rows[1], (path, 3): rows[3]}

    first = again(feed, corrected=corrected)
    second = again(feed, only=frozenset(corrected), corrected=corrected)

    assert (sum(first.added.values()), sum(second.added.values())) == (2, 0)
    assert_all_is_well(feed)


def test_all_records_of_a_replay_are_in_one_data_file_of_a_table_and_a_day(sink: Sink, tmp_path: Path):
    lines = [sink.insert(T, 110 + n, n, "x") for n in range(4)]
    bad = [line.replace(b',"x"', b",x") for line in lines]
    sink.file(T, 1, [lines[0], *bad[1:3]])
    sink.file(T, 2, bad[3:])
    feed = sink.feed(tmp_path / "lake")
    feed.run()
    corrected = dict(zip([record.position for record in feed.quarantined()], lines[1:], strict=True))

    report = again(feed, corrected=corrected)

    assert report.is_clean, [outcome.reason for outcome in report.outcomes]
    table = feed.lake.lake.catalog.load_table(tuple(feed.record(T).changelog or ()))
    assert [task.file.record_count for task in table.scan().plan_files()] == [3, 1]
    assert_all_is_well(feed)


def test_both_halves_of_an_update_come_back_together(tmp_path: Path):
    sink = Sink(tmp_path / "bucket", old_values=True)
    sink.table(T)
    good = sink.update(T, 110, (1, "eins"), (1, "uno"))
    halves = sink.update(T, 120, (2, "zwei"), (2, "due"))
    sink.file(T, 1, [*good, halves[0].replace(b'zwei"', b"zwei"), halves[1], *sink.update(T, 130, (3, "a"), (3, "b"))])
    feed = sink.feed(tmp_path / "lake")
    feed.run()
    assert [record.line for record in feed.quarantined()] == [2, 3]

    report = again(feed, corrected={(FILE, 2): halves[0]})

    assert resolutions(report) == [(2, "replayed"), (3, "replayed")]
    assert_all_is_well(feed)


def test_a_bad_value_in_an_update_is_corrected_with_its_two_lines(tmp_path: Path):
    sink = Sink(tmp_path / "bucket", old_values=True)
    sink.table(T)
    good = sink.update(T, 110, (1, "eins"), (1, "uno"))
    halves = sink.update(T, 120, (2, "zwei"), (2, "due"))
    sink.file(T, 1, [*good, halves[0], halves[1].replace(b"true,2,", b'true,"zwei",')])
    feed = sink.feed(tmp_path / "lake")
    feed.run()

    report = again(feed, corrected={(FILE, 3): b"".join(halves).rstrip(b"\r\n") + b"\n"})

    assert resolutions(report) == [(3, "replayed")]
    assert_all_is_well(feed)


def test_a_line_of_canal_json_is_corrected_likewise(tmp_path: Path):
    sink = JsonSink(tmp_path / "bucket")
    sink.table(T)
    corrected = sink.insert(T, 115, 7, "b")
    sink.file(T, 1, [sink.insert(T, 110, 1, "eins"), corrected.replace(b'"id":"7"', b'"id":"sieben"')])
    feed = sink.feed(tmp_path / "lake")
    feed.run()
    [bad] = feed.quarantined()

    report = again(feed, corrected={bad.position: corrected.rstrip()})

    assert resolutions(report) == [(1, "replayed")]
    assert_all_is_well(feed)


def test_a_corrected_record_above_the_checkpoint_waits_for_it(sink: Sink, tmp_path: Path):
    late = sink.insert(T, 1200, 7, "b")
    sink.file(T, 1, [sink.insert(T, 110, 1, "eins"), b"rubbish\r\n", sink.insert(T, 1100, 4, "vier")])
    feed = sink.feed(tmp_path / "lake")
    feed.run()

    early = again(feed, corrected={(FILE, 1): late})
    sink.bucket.checkpoint(2000)
    feed.run()
    report = again(feed, corrected={(FILE, 1): late})

    assert early.outcomes[0].resolution is Resolution.STILL_BAD
    assert "It waits" in early.outcomes[0].reason
    assert resolutions(report) == [(1, "replayed")]
    assert_all_is_well(feed)


def test_without_commit_ts_a_record_comes_back_at_its_place(tmp_path: Path):
    sink = Sink(tmp_path / "bucket", commit_ts=False)
    sink.table(T)
    corrected = sink.insert(T, 0, 7, "b")
    sink.file(T, 1, [sink.insert(T, 0, 1, "eins"), corrected.replace(b',7,"b"', b',"sieben","b"')])
    sink.file(T, 2, [sink.insert(T, 0, 8, "acht")])
    feed = sink.feed(tmp_path / "lake")
    feed.run()

    again(feed, corrected={(FILE, 1): corrected})

    assert_all_is_well(feed)
    table = feed.lake.lake.catalog.load_table(tuple(feed.record(T).changelog or ()))
    rows = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["_ticdc_seq"])
    assert [row["id"] for row in rows] == [1, 7, 8]
    sink.file(T, 3, [sink.insert(T, 0, 9, "neun")])
    later = sink.feed(tmp_path / "lake")
    later.run()
    assert later.found() == later.expected()


# -- what is not taken in ---------------------------------------------------------------------------------------------


def test_a_discarded_record_stays_listed_and_the_check_is_green(sink: Sink, tmp_path: Path):
    sink.file(T, 1, [sink.insert(T, 110, 1, "eins"), b"rubbish\r\n"])
    feed = sink.feed(tmp_path / "lake")
    feed.run()

    report = again(feed, only=frozenset(), discarded=frozenset({(FILE, 1)}))

    assert resolutions(report) == [(1, "discarded")]
    assert [r.resolution for r in feed.lake.lake.control.ever_quarantined()] == ["discarded"]
    assert_all_is_well(feed)


@pytest.mark.parametrize("bad", [b"", b'"I","t","r",115,7,"x"\r\n', b'"I","t","s",115,x,"x"\r\n'])
def test_bytes_that_are_no_record_of_the_table_change_nothing(sink: Sink, tmp_path: Path, bad: bytes):
    sink.file(T, 1, [sink.insert(T, 110, 1, "eins"), b"rubbish\r\n"])
    feed = sink.feed(tmp_path / "lake")
    feed.run()
    snapshots = feed.lake.snapshots()

    report = again(feed, corrected={(FILE, 1): bad})

    assert resolutions(report) == [(1, "still bad")]
    assert report.outcomes[0].reason.startswith(f"{FILE}, record 1")
    assert feed.lake.snapshots() == snapshots


def test_a_record_that_is_not_in_the_quarantine_is_refused(sink: Sink, tmp_path: Path):
    sink.file(T, 1, [sink.insert(T, 110, 1, "eins"), b"rubbish\r\n"])
    feed = sink.feed(tmp_path / "lake")
    feed.run()

    with pytest.raises(NotYetError, match="a record of the quarantine"):
        again(feed, discarded=frozenset({(FILE, 2)}))


# -- messages ---------------------------------------------------------------------------------------------------------


def damaged(workload: Workload, folder: Path) -> tuple[Path, dict[tuple[str, int], bytes]]:
    """A copy of a capture in which every seventh message, if of rows, cannot be decoded; those as they were."""
    lines = (workload.root / "messages.jsonl").read_text().splitlines()
    lost: dict[tuple[str, int], bytes] = {}
    lines_written = []
    for number, line in enumerate(lines):
        message = json.loads(line)
        value = b64decode(message["value"] or "")
        if number % 7 == 3 and ((of_avro(workload) and value) or _has_rows(value)):
            lost[f"{message['topic']}/{message['partition']}", message["offset"]] = value
            message["value"] = b64encode(value[: len(value) // 2]).decode()
        lines_written.append(json.dumps(message))
    folder.mkdir(parents=True)
    capture = folder / "messages.jsonl"
    capture.write_text("\n".join(lines_written) + "\n")
    return capture, lost


def of_avro(workload: Workload) -> bool:
    return "protocol=avro" in workload.variant["sink_uri"]


def _has_rows(value: bytes) -> bool:
    marks = (b'"u":{', b'"d":{', b'"type":"INSERT"', b'"type":"UPDATE"', b'"type":"DELETE"')
    return any(mark in value for mark in marks)


NAMES = ("open/seed1", "canal-json-tidb/seed1", "simple-json/seed1", "avro-ext/seed1")
MESSAGES = [w for w in workloads() if w.name in NAMES]


@pytest.mark.parametrize("workload", MESSAGES, ids=lambda w: w.name)
def test_corrected_messages_give_the_changelogs_that_sound_ones_would_have(workload: Workload, tmp_path: Path):
    capture, lost = damaged(workload, tmp_path / "capture")
    registry = {"file": str(workload.root / "registry.json")}
    settings = {"schema_registry": registry} if of_avro(workload) else {}
    lake = FeedLake(workload, tmp_path / "lake", capture, **settings)
    lake.publish()
    quarantined = {record.position for record in lake.lake.control.quarantined()}
    assert quarantined
    assert quarantined == lost.keys()

    report = again(lake, corrected=lost)

    assert {outcome.resolution for outcome in report.outcomes} == {Resolution.REPLAYED}, report.outcomes[0].reason
    sound = FeedLake(workload, tmp_path / "sound", **settings)
    sound.publish()
    assert lake.changes() == sound.changes()
    assert lake.lake.control.quarantined() == []
    assert again(lake).outcomes == []


@pytest.mark.parametrize("wire", [CanalJson(), OpenProtocol()], ids=["canal-json", "open"])
def test_a_table_that_only_quarantined_rows_show_is_made_by_the_replay(wire: Wire, tmp_path: Path):
    stream, sound = SmallStream(tmp_path / "bad", wire), SmallStream(tmp_path / "sound", wire)
    for made in (stream, sound):
        made.create(1, shape("a"))
        made.put(2, shape("a"), 1)
        made.put(3, shape("b"), 1)
        made.put(4, shape("b"), 2)
        made.watermark(5)
    capture = stream.capture / "messages.jsonl"
    lines = [json.loads(line) for line in capture.read_text().splitlines()]
    lost = {("feed/0", line["offset"]): b64decode(line["value"]) for line in lines[2:4]}
    for line in lines[2:4]:
        line["value"] = b64encode(b64decode(line["value"])[:-9]).decode()
    capture.write_text("".join(json.dumps(line) + "\n" for line in lines))
    lake, expected = stream.lake(), sound.lake()
    lake.publish()
    expected.publish()
    assert [name for _, name in lake.records()] == ["a"]

    report = again(lake, corrected=lost)

    assert {outcome.resolution for outcome in report.outcomes} == {Resolution.REPLAYED}, report.outcomes[0].reason
    assert lake.changes() == expected.changes()
    watermarks = {name: record.watermark for name, record in expected.records().items()}
    assert {name: record.watermark for name, record in lake.records().items()} == watermarks
    stream.put(6, shape("b"), 3)
    stream.watermark(7)
    lake.publish()
    assert ids(lake) == {"a": [1], "b": [1, 2, 3]}


def test_records_that_a_wrong_option_cut_at_other_places_are_read_as_one_piece(sink: Sink, tmp_path: Path):
    texts = ['a,"b', 'c",d', "e", 'f,"g', "h", 'i",j']
    lines = [f"I|+|t|+|s|+|{110 + n}|+|{n}|+|{text}\r\n".encode() for n, text in enumerate(texts)]
    for n, text in enumerate(texts):
        sink.insert(T, 110 + n, n, text)
    sink.file(T, 1, lines)
    sink.feed(tmp_path / "lake", on_bad_message="quarantine_all").run()
    csv = {"include-commit-ts": True, "delimiter": "|+|", "quote": ""}
    feed = sink.feed(tmp_path / "lake", config={"sink": {"date-separator": "none", "csv": csv}})
    assert len(feed.quarantined()) == 3

    report = again(feed)

    assert resolutions(report) == [(0, "replayed"), (1, "replayed"), (2, "replayed")]
    assert sum(report.added.values()) == len(texts)
    assert_all_is_well(feed)
