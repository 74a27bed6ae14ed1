"""A run whose records are mostly bad has a wrong config: it says so, and neither publishes nor keeps anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from ticdc_assets.errors import ConfigError
from ticdc_assets_tests.fixtures import workloads
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.small_feeds import Feed, Sink

T = ("s", "t")
U = ("s", "u")


@pytest.fixture
def sink(tmp_path: Path) -> Sink:
    made = Sink(tmp_path / "bucket")
    made.table(T)
    return made


def csv_feed(sink: Sink, folder: Path, csv: dict[str, object], **settings: str) -> Feed:
    config = {"sink": {"date-separator": "none", "csv": {"include-commit-ts": True, **csv}}}
    return sink.feed(folder, config=config, **settings)


def assert_nothing_moved(feed: Feed) -> None:
    assert feed.lake.lake.control.newest() is None
    assert feed.quarantined() == []
    assert not feed.found()


@pytest.mark.parametrize(
    "csv", [{"delimiter": "|"}, {"include-commit-ts": False}, {"output-old-value": True}, {"quote": "'"}], ids=str
)
def test_a_wrong_option_in_the_first_run_moves_nothing_and_the_corrected_run_reads_everything(
    sink: Sink, tmp_path: Path, csv: dict[str, object]
):
    sink.table(U)
    for number in range(1, 4):
        sink.file(T, number, [sink.insert(T, 110 + number, number, "eins")])
    sink.file(U, 1, [sink.insert(U, 110, 1, "eins")])

    with pytest.raises(ConfigError, match=r"4 of 4 records that cannot be read.*`delimiter`, `quote`"):
        csv_feed(sink, tmp_path / "lake", csv).run()

    feed = sink.feed(tmp_path / "lake")
    assert_nothing_moved(feed)
    feed.run()
    assert feed.found() == feed.expected()
    assert feed.quarantined() == []


def test_one_bad_record_alone_in_the_first_run_goes_to_quarantine(sink: Sink, tmp_path: Path):
    sink.file(T, 1, [b"rubbish\r\n"])
    feed = sink.feed(tmp_path / "lake")

    feed.run()

    assert len(feed.quarantined()) == 1
    assert feed.state(T) == "live"


def files_of_bad_records(sink: Sink, count: int) -> None:
    """Each record in a file of its own: a file of many bad records stops its table."""
    for number in range(2, 2 + count):
        sink.file(T, number, [b"rubbish\r\n"])


@pytest.mark.parametrize(("bad", "sound"), [(9, 0), (11, 6)])
def test_fewer_bad_records_than_ten_or_than_two_of_three_go_to_quarantine(
    sink: Sink, tmp_path: Path, bad: int, sound: int
):
    sink.file(T, 1, [sink.insert(T, 110, 1, "eins")])
    sink.feed(tmp_path / "lake").run()
    files_of_bad_records(sink, bad)
    for n in range(sound):
        sink.file(T, 2 + bad + n, [sink.insert(T, 120, n, "eins")])
    feed = sink.feed(tmp_path / "lake")

    feed.run()

    assert len(feed.quarantined()) == bad


def test_a_later_run_of_mostly_bad_records_stays_before_them_until_the_config_is_corrected(sink: Sink, tmp_path: Path):
    sink.file(T, 1, [sink.insert(T, 110, 1, "eins")])
    sink.feed(tmp_path / "lake").run()
    for number in range(2, 14):
        sink.file(T, number, [sink.insert(T, 110 + number, number, "eins")])
    sink.bucket.checkpoint(2000)
    feed = csv_feed(sink, tmp_path / "lake", {"delimiter": "|"})
    record, snapshots = feed.lake.lake.control.newest(), feed.lake.snapshots()

    with pytest.raises(ConfigError, match="12 of 12 records"):
        feed.run()

    assert feed.lake.lake.control.newest() == record
    assert feed.lake.snapshots() == snapshots
    assert feed.quarantined() == []
    corrected = sink.feed(tmp_path / "lake")
    corrected.run()
    assert corrected.found() == corrected.expected()


def test_records_that_are_bad_themselves_are_taken_into_quarantine_where_the_config_says_so(sink: Sink, tmp_path: Path):
    sink.file(T, 1, [sink.insert(T, 110, 1, "eins")])
    files_of_bad_records(sink, 12)
    feed = sink.feed(tmp_path / "lake", on_bad_message="quarantine_all")

    feed.run()

    assert len(feed.quarantined()) == 12
    assert feed.found() == feed.expected()


def test_records_that_were_in_quarantine_before_are_not_counted_again(sink: Sink, tmp_path: Path):
    sink.file(T, 1, [sink.insert(T, 110, 1, "eins"), sink.insert(T, 1500, 2, "zwei"), *[b"rubbish\r\n"] * 9])
    sink.feed(tmp_path / "lake").run()
    sink.file(T, 2, [b"rubbish\r\n"])
    sink.bucket.checkpoint(1400)
    feed = sink.feed(tmp_path / "lake")

    feed.run()

    assert len(feed.quarantined()) == 10


@pytest.mark.parametrize(
    ("variant", "protocol"), [("open", "canal-json"), ("canal-json-tidb", "simple"), ("simple-json", "open-protocol")]
)
def test_messages_of_another_protocol_than_the_configured_one_move_nothing(tmp_path: Path, variant: str, protocol: str):
    [workload] = [w for w in workloads(variant, "seed1") if w.root.parent.name == variant]
    wrong = {"sink_uri": f"kafka://x/topic?protocol={protocol}&enable-tidb-extension=true"}

    with pytest.raises(ConfigError, match="cannot be read"):
        FeedLake(workload, tmp_path / "lake", **wrong).publish()

    lake = FeedLake(workload, tmp_path / "lake")
    assert lake.lake.control.newest() is None
    assert lake.lake.control.ever_quarantined() == []
    lake.publish()
    assert lake.lake.control.ever_quarantined() == []
    assert lake.changes()


def test_a_first_run_with_few_sound_records_is_refused_as_well(sink: Sink, tmp_path: Path):
    sink.file(T, 1, [sink.insert(T, 110, 1, "eins")])
    files_of_bad_records(sink, 10)

    with pytest.raises(ConfigError, match="10 of 11 records"):
        sink.feed(tmp_path / "lake").run()
