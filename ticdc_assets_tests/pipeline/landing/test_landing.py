"""Topics of a real Kafka broker, landed in the table `messages` and read from there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from ticdc_assets.assets.graph import definitions_of
from ticdc_assets.config import BadInputPolicy, KafkaSource, OffsetRule
from ticdc_assets.errors import SourceError
from ticdc_assets.failpoints import LISTENERS, Failpoint
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.landing import plan, records, worker
from ticdc_assets.pipeline.landing.land import LandingReport, land, unlanded_offsets
from ticdc_assets.pipeline.landing.landed_log import landed_log
from ticdc_assets.sources.kafka import client
from ticdc_assets.sources.kafka.ranges import Offsets
from ticdc_assets.sources.message_log import placed_messages
from ticdc_assets.spark import LocalWorkers
from ticdc_assets.tables import messages as messages_table
from ticdc_assets_tests.fixtures import workloads
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.services.kafka import KafkaServer

pytestmark = pytest.mark.services

DAY_MS = 86_400_000
T0 = 1_754_006_400_000


def numbered(topic: str, *counts: int, text: str = "m", first: int = 0) -> list[dict[str, Any]]:
    """So many messages for each partition of a topic, one a second in each."""
    return [
        {"topic": topic, "partition": p, "key": None, "value": f"{text}{p}-{n}".encode(), "ts_ms": T0 + n * 1000 + p}
        for p, count in enumerate(counts)
        for n in range(first, first + count)
    ]


def lake_of(folder: Path, kafka: KafkaServer, topics: Sequence[str], **source: Any) -> Lake:
    workload = workloads("canal-json-tidb", "seed1")[0]
    named = {"kafka": {"brokers": kafka.brokers, "topics": list(topics), **source}}
    return FeedLake(workload, folder, storage=Path("unused"), source=named).lake


def landed(lake: Lake) -> dict[int, list[int]]:
    """By partition, the offsets that are in the table, in the order of the log."""
    found: dict[int, list[int]] = {}
    for _, message in placed_messages(landed_log(lake)):
        found.setdefault(message.partition, []).append(message.offset)
    return found


def snapshots(lake: Lake) -> int:
    table = messages_table.load(lake.catalog, lake.control.namespace)
    return 0 if table is None else len(table.snapshots())


# -- each message once -------------------------------------------------------------------------------------------------


def test_each_message_is_landed_once_however_often_it_is_asked_for(kafka, topic, tmp_path):
    kafka.make_topic(topic, 2)
    kafka.send(numbered(topic, 5, 3))
    lake = lake_of(tmp_path, kafka, [topic])
    assert land(lake, LocalWorkers()) == LandingReport(8, 0)
    assert land(lake, LocalWorkers()) == LandingReport()
    kafka.send(numbered(topic, 1, 2, first=5))
    assert unlanded_offsets(lake) == 3
    assert land(lake, LocalWorkers()) == LandingReport(3, 0)

    assert landed(lake) == {0: [0, 1, 2, 3, 4, 5], 1: [0, 1, 2, 3, 4]}
    assert snapshots(lake) == 2
    assert unlanded_offsets(lake) == 0


def test_of_two_that_land_at_once_one_commits(kafka, topic, tmp_path):
    kafka.make_topic(topic, 2)
    kafka.send(numbered(topic, 50, 30))
    lake = lake_of(tmp_path, kafka, [topic])
    other = Lake(lake.config, lake.changefeed)

    def first(moment: Failpoint) -> None:
        if moment is Failpoint.MESSAGES_WRITTEN:
            LISTENERS.remove(first)
            assert land(other, LocalWorkers()).messages == 80

    LISTENERS.append(first)
    assert land(lake, LocalWorkers()) == LandingReport()

    assert landed(lake) == {0: list(range(50)), 1: list(range(30))}
    assert snapshots(lake) == 1


def test_a_commit_whose_answer_is_lost_is_not_made_twice(kafka, topic, tmp_path, monkeypatch):
    kafka.make_topic(topic)
    kafka.send(numbered(topic, 4))
    lake = lake_of(tmp_path, kafka, [topic])
    commit = type(lake.catalog).commit_table

    def lost(catalog: Any, table: Any, requirements: Any, updates: Any) -> Any:
        answer = commit(catalog, table, requirements, updates)
        if any(update.action == "add-snapshot" for update in updates):
            raise ConnectionResetError
        return answer

    monkeypatch.setattr(type(lake.catalog), "commit_table", lost)
    assert land(lake, LocalWorkers()).messages == 4

    assert landed(lake) == {0: [0, 1, 2, 3]}
    assert snapshots(lake) == 1


@pytest.mark.parametrize(
    "moment", [Failpoint.OFFSETS_FIXED, Failpoint.MESSAGES_WRITTEN, Failpoint.BEFORE_LANDING_COMMIT]
)
def test_a_landing_that_is_killed_leaves_nothing_and_the_next_lands_all(kafka, topic, tmp_path, moment):
    kafka.make_topic(topic)
    kafka.send(numbered(topic, 4))
    lake = lake_of(tmp_path, kafka, [topic])

    def kill(reached: Failpoint) -> None:
        if reached is moment:
            LISTENERS.remove(kill)
            raise KeyboardInterrupt

    LISTENERS.append(kill)
    with pytest.raises(KeyboardInterrupt):
        land(lake, LocalWorkers())
    assert landed(lake) == {}
    assert land(lake, LocalWorkers()).messages == 4

    assert landed(lake) == {0: [0, 1, 2, 3]}


def test_ranges_that_are_cut_into_pieces_are_landed_whole(kafka, topic, tmp_path, monkeypatch):
    monkeypatch.setattr(plan, "TASK_OFFSETS_MIN", 10)
    monkeypatch.setattr(records, "ROW_GROUP_MESSAGES", 4)
    kafka.make_topic(topic, 2)
    kafka.send(numbered(topic, 95, 41))
    lake = lake_of(tmp_path, kafka, [topic])
    assert land(lake, LocalWorkers()).messages == 136

    assert landed(lake) == {0: list(range(95)), 1: list(range(41))}
    table = messages_table.load(lake.catalog, lake.control.namespace)
    assert table is not None
    assert len(list(table.scan().plan_files())) > 4


# -- what a message is -------------------------------------------------------------------------------------------------


def test_a_message_is_landed_with_all_that_kafka_has_of_it(kafka, topic, tmp_path):
    kafka.make_topic(topic)
    kafka.send([{"topic": topic, "partition": 0, "key": b"\x00k", "value": None, "ts_ms": T0 + 1}])
    kafka.send([{"topic": topic, "partition": 0, "key": None, "value": b"\xff", "ts_ms": T0 + DAY_MS}])
    lake = lake_of(tmp_path, kafka, [topic])
    land(lake, LocalWorkers())
    table = messages_table.load(lake.catalog, lake.control.namespace)
    assert table is not None
    rows = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["offset"])

    assert [(r["topic"], r["partition"], r["key"], r["value"]) for r in rows] == [
        (topic, 0, b"\x00k", None),
        (topic, 0, None, b"\xff"),
    ]
    assert [int(r["timestamp"].timestamp() * 1000) for r in rows] == [T0 + 1, T0 + DAY_MS]
    assert [field.name for field in table.spec().fields] == ["timestamp_day", "topic"]
    assert len(list(table.scan().plan_files())) == 2


def test_messages_of_partitions_stand_in_order_of_their_timestamps(kafka, topic, tmp_path):
    kafka.make_topic(topic, 3)
    kafka.send(numbered(topic, 40, 40, 40))
    lake = lake_of(tmp_path, kafka, [topic])
    land(lake, LocalWorkers())
    log = landed_log(lake)
    read = list(placed_messages(log))

    assert [message.ts_ms for _, message in read] == sorted(message.ts_ms for _, message in read)
    for number in (0, 1, 59, 119):
        assert [one for block in log.blocks(read[number][0]) for one in block.messages()] == read[number:]


# -- bounds ------------------------------------------------------------------------------------------------------------


def test_a_run_lands_no_more_messages_than_its_bound(kafka, topic, tmp_path):
    kafka.make_topic(topic, 2)
    kafka.send(numbered(topic, 10, 4))
    lake = lake_of(tmp_path, kafka, [topic], max_messages=6)
    assert land(lake, LocalWorkers()) == LandingReport(6, 8)
    assert land(lake, LocalWorkers()) == LandingReport(6, 2)
    assert land(lake, LocalWorkers()) == LandingReport(2, 0)

    assert landed(lake) == {0: list(range(10)), 1: list(range(4))}


def test_a_run_lands_little_more_than_its_bound_of_bytes(kafka, topic, tmp_path, monkeypatch):
    monkeypatch.setattr(records, "ROW_GROUP_MESSAGES", 10)
    monkeypatch.setattr(plan, "TASK_OFFSETS_MIN", 50)
    kafka.make_topic(topic)
    kafka.send([{**m, "value": b"x" * 100} for m in numbered(topic, 90)])
    lake = lake_of(tmp_path, kafka, [topic], max_bytes=4000)
    counts = []
    while unlanded_offsets(lake):
        counts.append(land(lake, LocalWorkers()).messages)

    assert sum(counts) == 90
    assert 36 <= min(counts[:-1]) <= max(counts) <= 40  # of the 40 that have 4,000 bytes
    assert landed(lake) == {0: list(range(90))}


def test_offsets_without_messages_do_not_keep_a_landing_from_its_end(kafka, topic, tmp_path):
    kafka.make_topic(topic)
    kafka.send_in_transactions(numbered(topic, 5), numbered(topic, 3, first=5))
    lake = lake_of(tmp_path, kafka, [topic])
    end = kafka.end_of(topic, 0)
    assert end > 8
    land(lake, LocalWorkers())

    assert len(landed(lake)[0]) == 8
    assert unlanded_offsets(lake) == 0


def test_a_landing_ends_at_the_offsets_it_fixed_where_a_transaction_is_aborted_or_open(kafka, topic, tmp_path):
    kafka.make_topic(topic)
    lake = lake_of(tmp_path, kafka, [topic])
    kafka.send(numbered(topic, 3))
    kafka.begin_transaction(numbered(topic, 4, text="aborted")).abort_transaction(30)
    assert land(lake, LocalWorkers()).messages == 3
    assert unlanded_offsets(lake) == 0
    open_one = kafka.begin_transaction(numbered(topic, 2, text="open"))
    kafka.send(numbered(topic, 1, first=5))  # it follows the open transaction, so nobody can read it yet
    assert land(lake, LocalWorkers()).messages == 0
    open_one.commit_transaction(30)
    assert land(lake, LocalWorkers()).messages == 3

    assert landed(lake)[0] == kafka.offsets_of(topic, 0)
    assert unlanded_offsets(lake) == 0


@pytest.mark.matrix
def test_a_landing_ends_at_the_offsets_it_fixed_where_compaction_removed_messages(kafka, topic, tmp_path, monkeypatch):
    monkeypatch.setattr(plan, "TASK_OFFSETS_MIN", 10)  # some tasks have no message at all
    kafka.make_topic(
        topic, cleanup_policy="compact", segment_bytes="1048576", segment_ms="100", min_cleanable_dirty_ratio="0.01"
    )
    kafka.send([{**m, "key": b"same"} for m in numbered(topic, 95)])
    kafka.send([{**m, "key": b"same"} for m in numbered(topic, 1, first=95)])  # a segment of its own, by its timestamp
    kept = kafka.wait_for_compaction(topic, 0, 2)
    assert kept[0] > 40
    lake = lake_of(tmp_path, kafka, [topic], max_messages=30)
    counts = []
    while unlanded_offsets(lake):
        counts.append(land(lake, LocalWorkers()).messages)

    assert landed(lake)[0] == kept
    assert counts.count(0) >= 1  # whole runs whose offsets are all compacted


# -- what changes at the source ----------------------------------------------------------------------------------------


def test_a_partition_that_is_added_is_landed_from_its_first_message(kafka, topic, tmp_path):
    kafka.make_topic(topic)
    kafka.send(numbered(topic, 3))
    lake = lake_of(tmp_path, kafka, [topic], starting="latest")
    land(lake, LocalWorkers())
    kafka.grow_topic(topic, 2)
    kafka.send(numbered(topic, 0, 4))
    land(lake, LocalWorkers())

    assert landed(lake) == {1: [0, 1, 2, 3]}


def test_offsets_that_retention_removed_before_they_were_landed_are_named(kafka, topic, tmp_path):
    kafka.make_topic(topic)
    kafka.send(numbered(topic, 3))
    lake = lake_of(tmp_path, kafka, [topic])
    land(lake, LocalWorkers())
    kafka.send(numbered(topic, 5, first=3))
    kafka.remove_messages_before(topic, 0, 6)

    assert "retention has removed 3 offsets that were not read" in str(land(lake, LocalWorkers()).faults[topic])
    assert landed(lake) == {0: [0, 1, 2]}


@pytest.mark.parametrize("count", [2, 3, 8], ids=["shorter", "as long", "longer"])
def test_a_topic_that_was_created_again_is_named(kafka, topic, tmp_path, count):
    kafka.make_topic(topic)
    kafka.send(numbered(topic, 3))
    lake = lake_of(tmp_path, kafka, [topic])
    land(lake, LocalWorkers())
    kafka.remove_topic(topic)
    kafka.make_topic(topic)
    kafka.send(numbered(topic, count, text="another"))

    assert "created again" in str(land(lake, LocalWorkers()).faults[topic])
    assert landed(lake) == {0: [0, 1, 2]}


def test_a_topic_that_was_created_again_is_named_where_its_last_message_is_gone(kafka, topic, tmp_path):
    kafka.make_topic(topic)
    kafka.send(numbered(topic, 3))
    lake = lake_of(tmp_path, kafka, [topic])
    land(lake, LocalWorkers())
    kafka.remove_topic(topic)
    kafka.make_topic(topic)
    kafka.send(numbered(topic, 8, text="another"))
    kafka.remove_messages_before(topic, 0, 3)

    assert "created again" in str(land(lake, LocalWorkers()).faults[topic])


def test_a_topic_is_not_taken_for_another_where_its_id_is_not_known(kafka, topic, tmp_path, monkeypatch):
    kafka.make_topic(topic)
    kafka.send(numbered(topic, 3))
    lake = lake_of(tmp_path, kafka, [topic])
    land(lake, LocalWorkers())
    kafka.send(numbered(topic, 2, first=3))
    kafka.remove_messages_before(topic, 0, 3)
    with monkeypatch.context() as patched:
        patched.setattr(client.KafkaClient, "topic_ids", lambda _: {})
        assert "found no id. Let this user DESCRIBE the topic" in str(land(lake, LocalWorkers()).faults[topic])

    assert land(lake, LocalWorkers()) == LandingReport(2, 0)
    assert landed(lake) == {0: [0, 1, 2, 3, 4]}


@pytest.mark.parametrize("fault", ["retention has removed", "created again", "no such topic"])
def test_a_topic_with_a_fault_does_not_keep_other_topics_from_landing(kafka, topic, tmp_path, fault):
    sound = f"{topic}_sound"
    for name in (topic, sound):
        kafka.make_topic(name)
        kafka.send(numbered(name, 3))
    lake = lake_of(tmp_path, kafka, [topic, sound])
    land(lake, LocalWorkers())
    if fault == "retention has removed":
        kafka.send(numbered(topic, 5, first=3))
        kafka.remove_messages_before(topic, 0, 6)
    else:
        kafka.remove_topic(topic)
    if fault == "created again":
        kafka.make_topic(topic)
        kafka.send(numbered(topic, 5, text="another"))
    kafka.send(numbered(sound, 4, first=3))

    for _ in range(2):  # a commit of the other topics must not make the fault look settled
        assert fault in str(land(lake, LocalWorkers()).faults[topic])
        found = Counter(message.topic for _, message in placed_messages(landed_log(lake)))
        assert found == {topic: 3, sound: 7}
    with pytest.raises(SourceError, match=fault):
        unlanded_offsets(lake)


def test_a_topic_that_fails_while_it_is_read_does_not_keep_other_topics_from_landing(kafka, topic, tmp_path):
    sound = f"{topic}_sound"
    for name in (topic, sound):
        kafka.make_topic(name)
        kafka.send(numbered(name, 3))
    lake = lake_of(tmp_path, kafka, [topic, sound])
    land(lake, LocalWorkers())
    for name in (topic, sound):
        kafka.send(numbered(name, 4, first=3))

    def remove(moment: Failpoint) -> None:
        if moment is Failpoint.OFFSETS_FIXED:
            LISTENERS.remove(remove)
            kafka.remove_messages_before(topic, 0, 5)

    LISTENERS.append(remove)
    assert "an offset that the partition does not hold" in str(land(lake, LocalWorkers()).faults[topic])
    assert Counter(message.topic for _, message in placed_messages(landed_log(lake))) == {topic: 3, sound: 7}


def test_a_broker_that_restarts_is_waited_for_and_read_on(kafka, topic, tmp_path):
    kafka.make_topic(topic)
    kafka.send(numbered(topic, 3))
    lake = lake_of(tmp_path, kafka, [topic])
    land(lake, LocalWorkers())
    source = lake.changefeed.source
    assert isinstance(source, KafkaSource)
    with client.KafkaClient(source) as connection, ThreadPoolExecutor() as threads:
        (partition,) = connection.partitions()
        kafka.stop()
        asked = threads.submit(connection.offsets, partition)  # while the broker starts, and while nobody leads
        kafka.start()
        assert asked.result() == Offsets(0, 3)
    kafka.send(numbered(topic, 2, first=3))
    land(lake, LocalWorkers())

    assert landed(lake) == {0: [0, 1, 2, 3, 4]}


@pytest.mark.matrix
def test_a_broker_that_restarts_or_stops_in_the_middle_of_a_run_loses_nothing(kafka, topic, tmp_path, monkeypatch):
    monkeypatch.setattr(records, "ROW_GROUP_MESSAGES", 4)
    kafka.make_topic(topic)

    def in_small_batches(first: int) -> None:
        """200 messages in 20 batches: a fetch gets at least one."""
        for number in range(20):
            kafka.send([{**m, "value": b"x" * 900} for m in numbered(topic, 10, first=first + 10 * number)])

    in_small_batches(0)
    small_fetches = {"queued.min.messages": "1", "fetch.message.max.bytes": "1000", "fetch.max.bytes": "1000"}
    lake = lake_of(tmp_path, kafka, [topic], options={**small_fetches, "message.max.bytes": "1000"})
    write = worker._FileWriter.write

    def when_first_written(act: Callable[[], object]) -> None:
        def first(writer: Any, records: Any) -> None:
            monkeypatch.setattr(worker._FileWriter, "write", write)
            act()
            write(writer, records)

        monkeypatch.setattr(worker._FileWriter, "write", first)

    when_first_written(lambda: (kafka.stop(), kafka.start()))
    assert land(lake, LocalWorkers()).messages == 200

    in_small_batches(200)
    monkeypatch.setattr(client, "SILENCE_TIMEOUT_S", 3.0)
    when_first_written(kafka.stop)
    with pytest.raises(SourceError, match=r"expected messages 200 to 399 of .* Nothing is lost: try again"):
        land(lake, LocalWorkers())
    kafka.start()
    monkeypatch.undo()
    assert land(lake, LocalWorkers()).messages == 200
    assert landed(lake) == {0: list(range(400))}


def test_offsets_that_retention_removed_and_the_user_gives_up_are_passed_over(kafka, topic, tmp_path):
    kafka.make_topic(topic)
    kafka.send(numbered(topic, 3))
    lake = lake_of(tmp_path, kafka, [topic])
    land(lake, LocalWorkers())
    kafka.send(numbered(topic, 5, first=3))
    kafka.remove_messages_before(topic, 0, 6)
    given_up = replace(lake.changefeed, bad_input=BadInputPolicy(skip_offsets=(OffsetRule(topic, 0, 3, 6),)))
    land(Lake(lake.config, given_up), LocalWorkers())

    assert landed(lake) == {0: [0, 1, 2, 6, 7]}


# -- the sensor --------------------------------------------------------------------------------------------------------


def test_new_messages_in_a_topic_are_asked_for_once(kafka, topic, tmp_path):
    kafka.make_topic(topic, 2)
    kafka.send(numbered(topic, 2))
    lake = lake_of(tmp_path, kafka, [topic])
    repository = definitions_of(lake.config).get_repository_def()
    [sensor] = repository.sensor_defs

    def evaluated(cursor: str | None) -> dg.SensorResult:
        instance = dg.DagsterInstance.ephemeral()
        return sensor(dg.build_sensor_context(cursor=cursor, instance=instance, repository_def=repository))

    first = evaluated(None)
    again = evaluated(first.cursor)
    kafka.send(numbered(topic, 0, 1))
    third = evaluated(again.cursor)

    assert [len(tick.run_requests) for tick in (first, again, third)] == [1, 0, 1]
