"""Which offsets a landing finds, and which topics it leaves out, by what a cluster in memory holds.

`test_topic_faults.py` and `test_kafka_runs.py` do the same with a broker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from ticdc_assets.config import KafkaSource, KafkaStart
from ticdc_assets.errors import SourceError, TopicError
from ticdc_assets.pipeline.landing.plan import PendingOffsets, created_again_since, pending_offsets
from ticdc_assets.sources.capture import Message
from ticdc_assets.sources.kafka.ranges import CREATED_AGAIN, KafkaPartition, OffsetRange, Offsets
from ticdc_assets.sources.kafka.same_topic import mark_of
from ticdc_assets.tables.messages import LandedOffsets, LandedPartition


def message(topic: str, offset: int, text: str = "a row") -> Message:
    return Message(topic, 0, offset, b"key", text.encode(), 1_700_000_000_000 + offset)


@dataclass
class Cluster:
    """Topics of one partition each, with these offsets; `ids` are the topic ids of the broker."""

    held: Mapping[str, Offsets]
    ids: Mapping[str, str] = field(default_factory=dict)
    text: str = "a row"

    def partitions_found(self) -> list[KafkaPartition]:
        return [KafkaPartition(topic, 0) for topic in sorted(self.held)]

    def topic_ids(self) -> dict[str, str]:
        return dict(self.ids)

    def missing(self, topic: str) -> TopicError:
        return TopicError("the cluster", f"the topic {topic}", "no such topic", "Create it.")

    def offsets_of_sound_topics(
        self, partitions: Sequence[KafkaPartition]
    ) -> tuple[dict[KafkaPartition, Offsets], dict[str, TopicError]]:
        return {partition: self.held[partition.topic] for partition in partitions}, {}

    def messages_of_all(self, ranges: Sequence[OffsetRange], each_max: int | None = None) -> Iterator[Message]:
        return (
            message(wanted.partition.topic, offset, self.text)
            for wanted in ranges
            for offset in range(wanted.begin, wanted.end)
        )


def landed(
    next_offsets: Mapping[str, int], ids: Mapping[str, str] | None = None, *, marked: bool = True
) -> LandedOffsets:
    """What an earlier run has landed, up to these offsets."""
    partitions = {
        (topic, 0): LandedPartition(offset, mark_of(message(topic, offset - 1)) if marked else "")
        for topic, offset in next_offsets.items()
    }
    return LandedOffsets(partitions, topic_ids=ids or {})


def pending(cluster: Cluster, before: LandedOffsets, *topics: str) -> PendingOffsets:
    return pending_offsets(cluster, KafkaSource(("broker:9092",), topics), before, ())  # type: ignore[arg-type]


def ranges(found: PendingOffsets) -> list[tuple[str, int, int]]:
    return [(wanted.partition.topic, wanted.begin, wanted.end) for wanted in found.ranges]


def test_what_was_not_landed_of_each_topic_is_pending():
    """Topics that only a pattern names are found too."""
    cluster = Cluster({"old": Offsets(0, 9), "read": Offsets(3, 5), "new": Offsets(0, 2)}, {"old": "A", "new": "B"})

    found = pending(cluster, landed({"old": 4, "read": 5}), "old")

    assert ranges(found) == [("new", 0, 2), ("old", 4, 9), ("read", 5, 5)]
    assert (found.topic_ids, found.faults, len(found)) == ({"old": "A", "new": "B"}, {}, 7)


def test_a_topic_that_is_not_there_leaves_the_others_as_they_are():
    """Its id is not kept: what the next run compares is the topic that was read."""
    cluster = Cluster({"a": Offsets(0, 9), "c": Offsets(0, 9)}, {"a": "A", "c": "C"})

    found = pending(cluster, landed({"a": 4, "b": 4}), "a", "b")

    assert ranges(found) == [("a", 4, 9), ("c", 0, 9)]
    assert {topic: str(error.found) for topic, error in found.faults.items()} == {"b": "no such topic"}


def test_a_topic_that_was_landed_and_is_not_there_has_a_fault_though_only_a_pattern_names_it():
    found = pending(Cluster({"a": Offsets(0, 9)}), landed({"a": 4, "b": 4}))

    assert (ranges(found), list(found.faults)) == ([("a", 4, 9)], ["b"])


def test_the_first_landing_fails_as_a_whole_where_a_topic_has_a_fault():
    with pytest.raises(SourceError, match="no such topic"):
        pending(Cluster({"a": Offsets(0, 9)}), LandedOffsets(), "a", "b")


def test_a_topic_that_the_config_does_not_name_any_more_is_to_be_named_again():
    fault = pending(Cluster({"a": Offsets(0, 9)}), landed({"a": 4, "b": 4}), "a").faults["b"]

    assert "name this one again" in fault.advice
    assert "was created again" not in fault.advice


@pytest.mark.parametrize(
    ("offsets", "found"),
    [({"a": {1: 5}}, "partitions 0 to 0"), ({"a": {0: 5}, "b": {0: 5}}, "no such topic")],
)
def test_a_start_in_a_partition_that_is_not_there_is_refused_before_anything_is_landed(
    offsets: dict[str, dict[int, int]], found: str
):
    cluster, source = (
        Cluster({"a": Offsets(0, 9)}),
        KafkaSource(("h:1",), ("a",), "b", start=KafkaStart(offsets=offsets)),
    )

    with pytest.raises(SourceError, match=found):
        pending_offsets(cluster, source, LandedOffsets(), ())  # type: ignore[arg-type]
    assert pending_offsets(cluster, source, landed({"a": 4}), ()).faults == {}  # type: ignore[arg-type]


def test_the_id_of_a_topic_with_a_fault_is_left_out():
    cluster = Cluster({"a": Offsets(0, 9), "b": Offsets(0, 2)}, {"a": "A", "b": "another"})

    found = pending(cluster, landed({"a": 4, "b": 4}, {"a": "A", "b": "B"}), "a", "b")

    assert (ranges(found), found.topic_ids, list(found.faults)) == ([("a", 4, 9)], {"a": "A"}, ["b"])


# -- a topic that was created again ------------------------------------------------------------------------------------

KEPT, REMOVED = Offsets(0, 9), Offsets(4, 9)
"""The broker still has the last message that was landed, at offset 3, or retention has removed it."""


@pytest.mark.parametrize(
    ("_why", "held", "before", "now", "text", "marked"),
    [
        ("the last message is another", KEPT, "A", "A", "another row", True),
        ("the last message is another and no ids are known", KEPT, None, None, "another row", True),
        ("the message is gone and the id is another", REMOVED, "A", "B", "a row", True),
        ("no message was read, and messages would be passed", KEPT, "A", "B", "a row", False),
    ],
)
def test_a_topic_that_was_created_again_is_not_landed(
    _why: str, held: Offsets, before: str | None, now: str | None, text: str, marked: bool
):
    cluster = Cluster({"t": held}, {"t": now} if now else {}, text)

    found = pending(cluster, landed({"t": 4}, {"t": before} if before else {}, marked=marked), "t")

    assert ranges(found) == []
    assert CREATED_AGAIN in str(found.faults["t"])


def test_a_topic_is_not_landed_if_its_last_message_is_gone_and_its_id_cannot_be_read():
    found = pending(Cluster({"t": REMOVED}, {}, "a row"), landed({"t": 4}, {"t": "A"}), "t")

    assert ranges(found) == []
    assert "expected its id, since the last message that was read is gone, found no id" in str(found.faults["t"])


@pytest.mark.parametrize(
    ("_why", "held", "before", "now", "marked"),
    [
        ("the last message is the same in a copy with another id", KEPT, "A", "B", True),
        ("the message is gone and the id is the same", REMOVED, "A", "A", True),
        ("the message is gone and no id was known", REMOVED, None, "A", True),
        ("the message is gone and no id is known", REMOVED, None, None, True),
        ("nothing of it was landed before", REMOVED, "A", "B", False),
    ],
)
def test_a_topic_that_may_be_the_same_goes_on(
    _why: str, held: Offsets, before: str | None, now: str | None, marked: bool
):
    cluster = Cluster({"t": held}, {"t": now} if now else {})

    found = pending(cluster, landed({"t": 4}, {"t": before} if before else {}, marked=marked), "t")

    assert (ranges(found), found.faults) == ([("t", 4, 9)], {})


@pytest.mark.parametrize(
    ("_why", "ids", "text", "before", "is_named"),
    [
        ("the id is the same", {"t": "A"}, "a row", "A", False),
        ("the id is another, though the last message is the same", {"t": "B"}, "a row", "A", True),
        ("no id is known, and the last message is the same", {}, "a row", None, False),
        ("no id is known, and the last message is another", {}, "another row", None, True),
        ("the id cannot be read any more, and the last message is another", {}, "another row", "A", True),
    ],
)
def test_a_topic_that_was_created_again_while_it_was_read_is_named(
    _why: str, ids: Mapping[str, str], text: str, before: str | None, is_named: bool
):
    of_before = {"t": before} if before else {}
    done = landed({"t": 4, "other": 4}, of_before)
    plan = pending(Cluster({"t": KEPT, "other": KEPT}, of_before), done, "t", "other")

    now = Cluster({"t": KEPT, "other": KEPT}, ids, text)
    found = created_again_since(now, done, plan, {"t"})  # type: ignore[arg-type]

    assert list(found) == (["t"] if is_named else [])
    assert all(CREATED_AGAIN in str(error) for error in found.values())


def test_a_topic_of_which_nothing_was_landed_is_known_by_its_id():
    plan = pending(Cluster({"t": KEPT}, {"t": "A"}), LandedOffsets(), "t")

    for topic_id, named in (("A", []), ("B", ["t"])):
        found = created_again_since(Cluster({"t": KEPT}, {"t": topic_id}), LandedOffsets(), plan, {"t"})  # type: ignore[arg-type]
        assert list(found) == named


def test_a_topic_that_is_gone_after_it_was_read_has_its_messages():
    plan = pending(Cluster({"t": KEPT}, {"t": "A"}), landed({"t": 4}, {"t": "A"}), "t")

    assert created_again_since(Cluster({}), landed({"t": 4}, {"t": "A"}), plan, {"t"}) == {}  # type: ignore[arg-type]
