"""Messages of a real Kafka broker are landed once in the table `messages`, whole and in order, and read from there."""

from __future__ import annotations

import pickle
from typing import Any

import dagster as dg
import pytest
from pyiceberg.manifest import ManifestFile

from ticdc_assets.assets.graph import definitions_of
from ticdc_assets.failpoints import LISTENERS, Failpoint
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.landing import plan, records
from ticdc_assets.pipeline.landing.lag import lag_of_topics
from ticdc_assets.pipeline.landing.land import LandingReport, land, unlanded_offsets
from ticdc_assets.pipeline.landing.landed_log import landed_log
from ticdc_assets.sources.kafka.client import KafkaClient
from ticdc_assets.sources.message_log import LogPart, placed_messages
from ticdc_assets.spark import LocalWorkers
from ticdc_assets.tables import messages as messages_table
from ticdc_assets_tests.pipeline.landing.topics import DAY_MS, T0, lake_of, landed, numbered, snapshots
from ticdc_assets_tests.services.raw_headers import send_with_header

pytestmark = pytest.mark.services


def test_each_message_is_landed_once_however_often_it_is_asked_for(kafka, topic, tmp_path):
    kafka.make_topic(topic, 2)
    kafka.send(numbered(topic, 5, 3))
    lake = lake_of(tmp_path, kafka, [topic])
    assert land(lake, LocalWorkers()) == LandingReport(8, 0, total=8)
    assert land(lake, LocalWorkers()) == LandingReport(total=8)
    kafka.send(numbered(topic, 1, 2, first=5))
    assert unlanded_offsets(lake) == 3
    assert land(lake, LocalWorkers()) == LandingReport(3, 0, total=11)

    assert landed(lake) == {0: [0, 1, 2, 3, 4, 5], 1: [0, 1, 2, 3, 4]}
    assert snapshots(lake) == 2
    assert unlanded_offsets(lake) == 0


def test_one_of_two_landings_at_once_commits(kafka, topic, tmp_path):
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


def test_a_message_is_landed_with_all_that_kafka_has_of_it(kafka, topic, tmp_path):
    kafka.make_topic(topic)
    headers = [("a", b"\x01"), ("a", None)]
    kafka.send([{"topic": topic, "partition": 0, "key": b"\x00k", "value": None, "ts_ms": T0 + 1, "headers": headers}])
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
    assert [r["headers"] or None for r in rows] == [[{"key": key, "value": value} for key, value in headers], None]
    assert [int(r["timestamp"].timestamp() * 1000) for r in rows] == [T0 + 1, T0 + DAY_MS]
    assert [field.name for field in table.spec().fields] == ["timestamp_day", "topic"]
    assert len(list(table.scan().plan_files())) == 2


def test_a_message_with_a_header_that_has_no_readable_name_is_landed_without_its_headers(kafka, topic, tmp_path):
    kafka.make_topic(topic)
    before, after = ({**line, "headers": [(name, b"v")]} for line, name in zip(numbered(topic, 2), "ab", strict=True))
    kafka.send([before])
    send_with_header(kafka.brokers, topic, b"m", b"\xff\xfe")
    kafka.send([after])
    lake = lake_of(tmp_path, kafka, [topic])
    state = lag_of_topics(lake)
    landing = land(lake, LocalWorkers())
    table = messages_table.load(lake.catalog, lake.control.namespace)
    assert table is not None
    rows = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["offset"])

    assert (state.lag and state.lag.offsets, landing.messages) == (3, 3)
    assert [row["value"] for row in rows] == [b"m0-0", b"m", b"m0-1"]
    assert [[header["key"] for header in row["headers"] or ()] for row in rows] == [["a"], [], ["b"]]


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


def test_a_worker_reads_its_part_of_the_log_without_the_files_of_other_commits(kafka, topic, tmp_path):
    kafka.make_topic(topic, 3)
    lake = lake_of(tmp_path, kafka, [topic])
    for first in (0, 20, 40):
        kafka.send(numbered(topic, 20, 20, 20, first=first))
        land(lake, LocalWorkers())
    log = landed_log(lake)
    read = list(placed_messages(log))
    ranges = [(0, 25), (25, 60), (70, 110), (119, 180)]
    sections = log.sections([LogPart(read[first][0], end - first) for first, end in ranges])

    assert [(s.first_commit, len(s.landings)) for s in sections] == [(0, 1), (0, 1), (1, 1), (1, 2)]
    for (first, end), section in zip(ranges, pickle.loads(pickle.dumps(sections)), strict=True):
        blocks = list(section.blocks(read[first][0]))
        assert [one for block in blocks for one in block.messages()] == read[first:end]
        assert sum(map(len, section.orders.values())) == end - first


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


def test_a_manifest_is_read_once_in_a_process(kafka, topic, tmp_path, monkeypatch):
    kafka.make_topic(topic)
    lake = lake_of(tmp_path, kafka, [topic])
    read: list[str] = []
    fetch = ManifestFile.fetch_manifest_entry
    monkeypatch.setattr(
        ManifestFile, "fetch_manifest_entry", lambda self, *of: (read.append(self.manifest_path), fetch(self, *of))[1]
    )
    for first in range(3):
        kafka.send(numbered(topic, 1, first=first))
        land(lake, LocalWorkers())
        assert landed(lake) == {0: list(range(first + 1))}

    assert len(set(read)) == 3
    before = list(read)
    assert landed(lake) == {0: [0, 1, 2]}
    assert read == before


def test_a_landing_reads_the_last_messages_of_all_partitions_at_once(kafka, topic, tmp_path, monkeypatch):
    kafka.make_topic(topic, 40)
    kafka.send(numbered(topic, *[2] * 40))
    lake = lake_of(tmp_path, kafka, [topic])
    assigned: list[int] = []
    read = KafkaClient._read
    monkeypatch.setattr(
        KafkaClient, "_read", lambda self, ranges, *of: (assigned.append(len(ranges)), read(self, ranges, *of))[1]
    )
    land(lake, LocalWorkers())
    assert assigned == [40]
    assert landed(lake) == {partition: [0, 1] for partition in range(40)}

    assigned.clear()
    land(lake, LocalWorkers())
    assert assigned == [40]
