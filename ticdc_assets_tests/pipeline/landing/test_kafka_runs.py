"""Runs of changefeeds whose source is Kafka: recorded streams, sent to a real broker as TiCDC sent them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from ticdc_assets.cli import main
from ticdc_assets.pipeline.landing.land import land
from ticdc_assets.pipeline.landing.landed_log import landed_log
from ticdc_assets.pipeline.maintenance import remove_decoded
from ticdc_assets.sources.message_log import numbered_messages
from ticdc_assets.spark import LocalWorkers
from ticdc_assets_tests.assets.feeds import without_java as without_java
from ticdc_assets_tests.fixtures import FIXTURES, of_full_set, workloads
from ticdc_assets_tests.pipeline.lakes import FeedLake, expected_changes
from ticdc_assets_tests.pipeline.landing.sent_streams import feed_of, known_values, last_ts
from ticdc_assets_tests.pipeline.landing.sent_streams import sent as sent

pytestmark = pytest.mark.services


VARIANTS = [
    "canal-json-tidb",
    "simple-avro",
    *(pytest.param(v, marks=pytest.mark.matrix) for v in ("open", "simple-json", "avro-ext", "debezium-tidb-noschema")),
]
MORE_VARIANTS = [
    "avro", "canal-json", "canal-json-tidb-claim-check", "canal-json-tidb-restart", "canal-json-tidb-topics",
    "simple-json-restart",
]  # fmt: skip


@pytest.mark.parametrize(
    "variant", [*VARIANTS, *of_full_set(name for name in MORE_VARIANTS if workloads(name, "seed1"))]
)
def test_changelogs_of_a_topic_that_grows_have_each_change_once(kafka, sent, tmp_path, variant):
    workload = workloads(variant, "seed1")[0]
    feed, stream = feed_of(workload, kafka, tmp_path / "lake"), sent(workload)
    for number in range(3):
        stream.send(number / 3, (number + 1) / 3)
        feed.publish()

    captured = FeedLake(workload, tmp_path / "captured")
    captured.publish()

    assert feed.publish() is None
    assert known_values(feed) == known_values(captured)
    assert feed.complete_tso() == captured.complete_tso() > 0


def test_tables_wait_for_a_partition_that_has_no_messages_yet(kafka, sent, tmp_path):
    workload = workloads("canal-json-tidb", "seed1")[0]
    feed, stream = feed_of(workload, kafka, tmp_path / "lake"), sent(workload)
    kafka.send([message for message in stream.messages if message["partition"] != 2])
    report = feed.publish()
    assert report is not None
    assert report.high == 0
    notes = {record.note for record in feed.records().values()}
    assert any("expected messages of oracle[2], which the source has" in note for note in notes), notes
    kafka.send([message for message in stream.messages if message["partition"] == 2])
    feed.publish()

    assert feed.changes() == expected_changes(workload, old_values=True)
    assert feed.complete_tso() == last_ts(workload)


def test_offsets_without_messages_hold_tables_until_they_are_given_up(kafka, sent, tmp_path):
    workload = workloads("canal-json-tidb", "seed1")[0]
    feed, stream = feed_of(workload, kafka, tmp_path / "lake"), sent(workload)
    half = len(stream.messages) // 2
    kafka.send_in_transactions(stream.messages[:half], stream.messages[half:])
    feed.publish()
    assert any("skip_offsets" in record.note for record in feed.records().values())
    given_up = feed_of(workload, kafka, tmp_path / "lake", skip_offsets=["oracle[*]"])
    given_up.publish()

    assert given_up.changes() == expected_changes(workload, old_values=True)
    assert given_up.complete_tso() == last_ts(workload)
    assert given_up.publish() is None


@pytest.mark.parametrize("variant", ["canal-json-tidb", *of_full_set(["canal-json"] if FIXTURES is not None else [])])
def test_what_is_decoded_is_removed_after_its_days_and_nothing_else(kafka, sent, tmp_path, capsys, variant):
    workload = next(w for w in workloads(variant, "seed1") if w.name.startswith(f"{variant}/"))
    feed, stream = feed_of(workload, kafka, tmp_path / "lake", options={"days_kept": 30}), sent(workload)
    newest = datetime.fromtimestamp(max(m["ts_ms"] for m in stream.messages) / 1000, UTC)
    later, removed = newest + timedelta(days=31), []
    for number in range(4):
        stream.send(number / 4, (number + 1) / 4)
        land(feed.lake, LocalWorkers())
        removed.append(remove_decoded(feed.lake, later, dry_run=False))
        feed.publish()
    landed = sum(1 for _ in numbered_messages(landed_log(feed.lake)))

    assert removed[0] == 0
    assert sum(removed) > 0
    assert sum(removed) + landed == len(stream.messages)
    assert remove_decoded(feed.lake, newest, dry_run=False) == 0
    assert feed.publish() is None
    captured = FeedLake(workload, tmp_path / "captured")
    captured.publish()
    assert feed.changes() == captured.changes()
    assert main(["maintain", "--config", str(feed.config.path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["messages"] == landed


@pytest.mark.spark
def test_run_brings_a_topic_to_the_truth(kafka, sent, tmp_path, capsys):
    workload = workloads("canal-json-tidb", "seed1")[0]
    feed = feed_of(workload, kafka, tmp_path / "lake")
    sent(workload).send()
    config = str(feed.config.path)
    assert main(["run", "--config", config]) == 0
    first = capsys.readouterr().out
    assert main(["run", "--config", config]) == 0

    assert "complete up to" in first
    assert "nothing is pending" in capsys.readouterr().out
    assert feed.differences(last_ts(workload)) == []
    assert feed.changes() == expected_changes(workload, old_values=True)


def test_run_warns_of_offsets_that_it_leaves_for_the_next_run(kafka, sent, tmp_path, capsys, without_java):
    workload = workloads("canal-json-tidb", "seed1")[0]
    stream = sent(workload)
    feed = feed_of(workload, kafka, tmp_path / "lake", options={"max_messages": 10})
    stream.send()
    main(["run", "--config", str(feed.config.path)])

    left = len(stream.messages) - 10
    assert f"warning: feed: {left} offsets left for the next run, by max_messages" in capsys.readouterr().err


@pytest.mark.spark
def test_runs_while_a_producer_writes_end_at_the_truth(kafka, sent, tmp_path):
    workload = workloads("canal-json-tidb", "seed1")[0]
    feed, stream = feed_of(workload, kafka, tmp_path / "lake"), sent(workload)
    for number in range(5):
        stream.send(number / 5, (number + 1) / 5)
        feed.run()

    assert feed.differences(last_ts(workload)) == []
    assert feed.changes() == expected_changes(workload, old_values=True)
