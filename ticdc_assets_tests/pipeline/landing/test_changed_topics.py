"""Topics that lose messages, are created again, grow or fail: each is named, and holds no other topic."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from ticdc_assets.config import BadInputPolicy, OffsetRule
from ticdc_assets.errors import SourceError
from ticdc_assets.failpoints import LISTENERS, Failpoint
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.landing.land import LandingReport, land, unlanded_offsets
from ticdc_assets.pipeline.landing.landed_log import landed_log
from ticdc_assets.sources.kafka import client
from ticdc_assets.sources.message_log import placed_messages
from ticdc_assets.spark import LocalWorkers
from ticdc_assets_tests.pipeline.landing.topics import lake_of, landed, numbered

pytestmark = pytest.mark.services


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


@pytest.mark.variants(2)
@pytest.mark.parametrize("starting", ["earliest", "latest"])
@pytest.mark.parametrize("lands_before", [True, False], ids=["later", "first"])
def test_a_topic_that_is_created_again_while_it_is_read_is_named(kafka, topic, tmp_path, starting, lands_before):
    sound = f"{topic}_sound"
    for name in (topic, sound):
        kafka.make_topic(name, 2)
        kafka.send(numbered(name, 3))
    lake = lake_of(tmp_path, kafka, [topic, sound], starting=starting)
    if lands_before:
        land(lake, LocalWorkers())
        for name in (topic, sound):
            kafka.send(numbered(name, 4, 4, first=3))

    def create_again(moment: Failpoint) -> None:
        if moment is Failpoint.OFFSETS_FIXED:
            LISTENERS.remove(create_again)
            kafka.remove_topic(topic)
            kafka.make_topic(topic, 2)
            kafka.send(numbered(topic, 20, 20, text="another"))

    LISTENERS.append(create_again)
    faults = [land(lake, LocalWorkers()).faults.get(topic)]
    faults += [land(lake, LocalWorkers()).faults.get(topic)]

    values = {m.value for _, m in placed_messages(landed_log(lake)) if m.topic == topic}
    named = ["created again" in str(fault) for fault in faults]
    if starting == "earliest" and not lands_before:
        assert named == [True, False]
        assert values == {f"another{p}-{n}".encode() for p in (0, 1) for n in range(20)}
    else:
        assert named == [True, True] if lands_before else [False, True]
        assert not any(value.startswith(b"another") for value in values)


def test_a_topic_that_was_created_again_is_named_where_no_message_was_landed(kafka, topic, tmp_path):
    kafka.make_topic(topic)
    kafka.send(numbered(topic, 3))
    lake = lake_of(tmp_path, kafka, [topic], starting="latest")
    land(lake, LocalWorkers())
    kafka.remove_topic(topic)
    kafka.make_topic(topic)
    kafka.send(numbered(topic, 8, text="another"))

    assert "created again" in str(land(lake, LocalWorkers()).faults[topic])
    assert landed(lake) == {}


def test_a_topic_is_not_taken_for_another_where_its_id_is_not_known(kafka, topic, tmp_path, monkeypatch):
    kafka.make_topic(topic)
    kafka.send(numbered(topic, 3))
    lake = lake_of(tmp_path, kafka, [topic])
    land(lake, LocalWorkers())
    kafka.send(numbered(topic, 2, first=3))
    kafka.remove_messages_before(topic, 0, 3)
    with monkeypatch.context() as patched:
        patched.setattr(client.KafkaClient, "topic_ids", lambda _: {})
        assert "found no id. Allow this user to DESCRIBE the topic" in str(land(lake, LocalWorkers()).faults[topic])

    assert land(lake, LocalWorkers()) == LandingReport(2, 0, total=5)
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
