"""Captures that rotate, have holes or are of a topic that was created again: nothing is passed over in silence."""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets_tests.deliveries.wires import WIRES, CanalJson, OpenProtocol, Wire
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.small_streams import (
    BY_TABLE,
    SmallStream,
    UndatedCanalJson,
    at,
    ids,
    shape,
    states,
    tso,
)

A, X = shape("a"), shape("x")


class Lines:
    """The messages of a stream, of which a test puts some into the capture."""

    def __init__(self, stream: SmallStream) -> None:
        self.path = stream.capture / "messages.jsonl"
        self.all = self.path.read_text().splitlines(keepends=True)

    def put(self, *offsets: int, partition: int | None = None, topic: str | None = None) -> None:
        """The messages of these offsets, in this order; of other partitions and topics all that there are."""
        lines = [(json.loads(line), line) for line in self.all]
        chosen = {m["offset"]: line for m, line in lines if self._is(m, partition, topic)}
        others = [line for m, line in lines if not self._is(m, partition, topic)]
        self.path.write_text("".join([*others, *(chosen[offset] for offset in offsets)]))

    def put_all(self) -> None:
        self.path.write_text("".join(self.all))

    @staticmethod
    def _is(message: dict[str, Any], partition: int | None, topic: str | None) -> bool:
        return partition in (None, message["partition"]) and topic in (None, message["topic"])


def rows(stream: SmallStream, numbers: range, partition: int = 0, topic: str = "feed") -> None:
    for number in numbers:
        stream.put(number, A, number, partition=partition, topic=topic)


def notes(lake: FeedLake) -> list[str]:
    newest = lake.lake.control.newest()
    return [record.note for record in newest.tables] if newest else []


@pytest.fixture
def stream(tmp_path: Path) -> SmallStream:
    """Offsets 0 to 11: CREATE, ten rows (their ids are their offsets), a watermark above them."""
    made = SmallStream(tmp_path, OpenProtocol())
    made.create(0, A)
    rows(made, range(1, 11))
    made.watermark(20)
    return made


def test_a_hole_in_a_capture_holds_its_tables_until_it_is_filled(stream: SmallStream):
    lines, lake = Lines(stream), stream.lake()
    lines.put(0, 1, 2, 3, 6, 7, 8, 9, 10, 11)

    lake.publish()

    assert states(lake) == {"a": "stopped"}
    assert ids(lake) == {}
    assert notes(lake) == [
        "messages: feed[0]: expected offset 4 next, found 6: 2 messages are missing. Restore them; "
        'if they may be lost, write skip_offsets: ["feed[0]@4-5"].'
    ]
    before = lake.lake.control.newest()
    lake.publish()
    assert lake.lake.control.newest() == before
    lines.put_all()
    lake.publish()
    assert states(lake) == {"a": "live"}
    assert ids(lake) == {"a": list(range(1, 11))}
    assert tso(lake) == at(20)


def test_messages_that_are_missing_between_two_captures_hold_its_tables(stream: SmallStream):
    lake = stream.lake()
    lake.publish()
    stream.put(21, A, 12)
    stream.put(22, A, 13)
    stream.watermark(30)
    lines = Lines(stream)
    lines.put(13, 14)

    lake.publish()

    assert states(lake) == {"a": "stopped"}
    assert "feed[0]: expected offset 12 next, found 13: 1 message is missing." in notes(lake)[0]
    assert ids(lake) == {"a": list(range(1, 11))}
    assert tso(lake) == at(20)
    lines.put(12, 13, 14)
    lake.publish()
    assert states(lake) == {"a": "live"}
    assert ids(lake) == {"a": [*range(1, 11), 12, 13]}
    assert lake.publish() is None


def test_a_capture_that_begins_where_the_last_one_ended_goes_on(stream: SmallStream):
    lake = stream.lake()
    lake.publish()
    stream.put(21, A, 12)
    stream.watermark(30)
    Lines(stream).put(12, 13)

    lake.publish()

    assert states(lake) == {"a": "live"}
    assert ids(lake) == {"a": [*range(1, 11), 12]}


def test_rows_that_were_above_the_watermark_must_still_be_there_when_a_capture_is_rotated(stream: SmallStream):
    stream.put(21, A, 12)
    lake = stream.lake()
    lake.publish()
    assert ids(lake) == {"a": list(range(1, 11))}
    stream.put(22, A, 13)
    stream.watermark(30)
    Lines(stream).put(13, 14)

    lake.publish()

    assert states(lake) == {"a": "stopped"}
    assert "expected offset 12 next, found 13" in notes(lake)[0]


@pytest.mark.parametrize(
    "rule", ["feed[0]@4-5", "feed[*]", "f*[0]@4-9", pytest.param(("feed[0]@4", "feed[0]@5"), id="two rules")]
)
def test_what_the_user_gives_up_is_passed_over(stream: SmallStream, rule: Any):
    lines = Lines(stream)
    lines.put(0, 1, 2, 3, 6, 7, 8, 9, 10, 11)
    rules = [rule] if isinstance(rule, str) else list(rule)
    lake = stream.lake(skip_offsets=rules)

    lake.publish()

    assert states(lake) == {"a": "live"}
    assert ids(lake) == {"a": [1, 2, 3, 6, 7, 8, 9, 10]}
    assert lake.publish() is None


def test_a_rule_for_other_offsets_accepts_nothing(stream: SmallStream):
    Lines(stream).put(0, 1, 2, 3, 6, 7, 8, 9, 10, 11)
    lake = stream.lake(skip_offsets=["feed[0]@4", "feed[1]", "other[*]"])

    lake.publish()

    assert states(lake) == {"a": "stopped"}
    assert "expected offset 5 next, found 6" in notes(lake)[0]


def test_offsets_that_come_out_of_order_over_two_runs_are_all_read(stream: SmallStream):
    stream.put(25, A, 12)
    stream.watermark(23)  # the row above is above it, and 13 comes before 6 in the capture
    stream.put(26, A, 14)
    stream.watermark(40)
    lines, lake = Lines(stream), stream.lake()
    lines.put(0, 1, 2, 3, 12, 13)
    lake.publish()
    assert states(lake) == {"a": "stopped"}
    lines.put(0, 1, 2, 3, 12, 13, 4, 5, 6, 7, 8, 9, 10, 11)

    lake.publish()

    assert states(lake) == {"a": "live"}
    assert ids(lake) == {"a": list(range(1, 11))}
    assert tso(lake) == at(23)
    lines.put(0, 1, 2, 3, 12, 13, 4, 5, 6, 7, 8, 9, 10, 11, 14, 15)
    lake.publish()
    assert ids(lake) == {"a": [*range(1, 11), 12, 14]}


def test_the_cursor_stays_before_every_row_above_the_watermark_in_whatever_order_they_are_captured(tmp_path: Path):
    stream = SmallStream(tmp_path, OpenProtocol())
    stream.create(0, A)
    stream.watermark(10)
    rows(stream, range(11, 15))
    lines, lake = Lines(stream), stream.lake()
    lines.put(4, 5, 2, 3, 0, 1)
    lake.publish()
    assert ids(lake) == {}
    lines.put_all()
    stream.watermark(20)

    lake.publish()

    assert ids(lake) == {"a": [11, 12, 13, 14]}
    assert tso(lake) == at(20)


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)
def test_a_topic_that_was_made_again_is_not_taken_for_the_old_one(wire: Wire, tmp_path: Path):
    stream = SmallStream(tmp_path / "old", wire)
    stream.create(0, A)
    stream.bootstrap(A)
    rows(stream, range(1, 11))
    stream.watermark(20)
    lake = stream.lake()
    lake.publish()
    old = Lines(stream)
    new_stream = SmallStream(tmp_path / "new", wire)
    new_stream.bootstrap(A)
    rows(new_stream, range(31, 35))
    new_stream.watermark(40)
    old.path.write_bytes((new_stream.capture / "messages.jsonl").read_bytes())

    lake.publish()

    assert states(lake) == {"a": "stopped"}
    assert "feed[0]: expected the message at offset 0 that an earlier run has read, found another." in notes(lake)[0]
    assert ids(lake) == {"a": list(range(1, 11))}
    assert tso(lake) == at(20)
    assert lake.publish() is None
    old.put_all()
    lake.publish()
    assert states(lake) == {"a": "live"}


def test_nor_is_a_file_of_a_partition_that_begins_again(tmp_path: Path):
    stream = SmallStream(tmp_path, binary=True)
    stream.create(0, A)
    rows(stream, range(1, 4))
    stream.watermark(20)
    lake = stream.lake()
    lake.publish()
    (stream.capture / "feed-0.bin").unlink()
    rows(stream, range(21, 31))
    stream.watermark(40)

    lake.publish()

    assert states(lake) == {"a": "stopped"}
    assert "offset 0 that an earlier run has read, found another" in notes(lake)[0]
    assert ids(lake) == {"a": [1, 2, 3]}


def test_captures_that_overlap_are_read_once_also_of_rows_without_a_key(tmp_path: Path):
    keyless = replace(A, key=None)
    stream = SmallStream(tmp_path, OpenProtocol())
    stream.create(0, keyless)
    for number in range(1, 6):
        stream.put(number, keyless, number)
    stream.watermark(10)
    lines = Lines(stream)
    lines.put(0, 1, 2, 3, 4, 2, 3, 4, 5, 6)
    lake = stream.lake()

    report = lake.publish()

    assert states(lake) == {"a": "live"}
    assert ids(lake) == {"a": [1, 2, 3, 4, 5]}
    assert report is not None and report.repeats == 0


def test_two_messages_of_one_offset_that_differ_hold_their_tables(stream: SmallStream):
    lines = Lines(stream)
    other = json.loads(lines.all[5]) | {"key": b64encode(b"other").decode()}
    lines.path.write_text("".join([*lines.all, json.dumps(other) + "\n"]))
    lake = stream.lake()

    lake.publish()

    assert states(lake) == {"a": "stopped"}
    assert "feed[0]: expected one message at offset 5, found two different ones." in notes(lake)[0]
    assert ids(lake) == {}


def test_a_hole_in_one_topic_holds_its_tables_and_the_others_go_on(tmp_path: Path):
    stream = SmallStream(tmp_path, config=BY_TABLE)
    stream.create(1, A, "s_a")
    stream.create(1, X, "s_x")
    rows(stream, range(2, 5), topic="s_a")
    stream.put(2, X, 1, topic="s_x")
    stream.watermark(5, "feed", "s_a", "s_x")
    stream.put(6, X, 2, topic="s_x")
    stream.put(6, A, 6, topic="s_a")
    stream.watermark(7, "feed", "s_a", "s_x")
    lines, lake = Lines(stream), stream.lake()
    lines.put(0, 1, 3, 4, 5, 6, topic="s_a")

    lake.publish()

    assert states(lake) == {"a": "stopped", "x": "waiting"}
    lines.put(0, 1, 2, 3, 4, 6, topic="s_a")
    lake.publish()
    assert states(lake) == {"a": "stopped", "x": "live"}
    assert ids(lake) == {"x": [1]}
    lines.put_all()
    lake.publish()
    assert states(lake) == {"a": "live", "x": "live"}
    assert ids(lake) == {"a": [2, 3, 4, 6], "x": [1, 2]}


# -- watermarks -------------------------------------------------------------------------------------------------------


def two_partitions(tmp_path: Path, wire: Wire | None = None) -> SmallStream:
    stream = SmallStream(tmp_path, wire or OpenProtocol())
    stream.create(0, A)
    for partition in (0, 1):
        rows(stream, range(1 + 3 * partition, 4 + 3 * partition), partition)
        stream.send("feed", partition, stream.wire.watermark(at(10)))
    return stream


def test_a_partition_that_leaves_the_capture_still_holds_the_watermark(tmp_path: Path):
    stream = two_partitions(tmp_path)
    lake = stream.lake()
    lake.publish()
    assert tso(lake) == at(10)
    stream.put(12, A, 12)
    stream.put(13, A, 13, partition=1)
    for partition in (0, 1):
        stream.send("feed", partition, stream.wire.watermark(at(20)))
    lines = Lines(stream)
    lines.put(partition=1)

    lake.publish()

    assert tso(lake) == at(10)
    assert states(lake) == {"a": "waiting"}
    assert "expected messages of feed[1], which the source has" in notes(lake)[0]
    lines.put_all()
    lake.publish()
    assert tso(lake) == at(20)
    assert states(lake) == {"a": "live"}
    assert ids(lake) == {"a": [1, 2, 3, 4, 5, 6, 12, 13]}


@pytest.mark.parametrize("where", ["sink_uri", "config"])
def test_partition_num_of_the_changefeed_counts(where: str, tmp_path: Path):
    stream = two_partitions(tmp_path)
    if where == "config":
        stream.config = {"sink": {"kafka-config": {"partition-num": 2}}}
    else:
        stream.wire.sink_uri += "&partition-num=2"
    lines, lake = Lines(stream), stream.lake()
    lines.put(partition=1)

    lake.publish()

    assert tso(lake) == 0
    assert states(lake) == {"a": "waiting"}
    assert "expected messages of feed[1], since sink_uri has partition-num=2, found none." in notes(lake)[0]
    lines.put_all()
    lake.publish()
    assert tso(lake) == at(10)
    assert ids(lake) == {"a": [1, 2, 3, 4, 5, 6]}


def test_a_partition_that_joins_lowers_nothing(tmp_path: Path):
    stream = two_partitions(tmp_path)
    lines, lake = Lines(stream), stream.lake()
    lines.put(partition=1)
    lake.publish()
    assert tso(lake) == at(10)
    lines.put(0, partition=1)

    lake.publish()

    assert tso(lake) == at(10)


def test_one_that_joins_without_its_first_messages_is_not_whole(tmp_path: Path):
    stream = two_partitions(tmp_path)
    lines, lake = Lines(stream), stream.lake()
    lines.put(partition=1)
    lake.publish()
    lines.put(2, 3, partition=1)

    lake.publish()

    assert states(lake) == {"a": "stopped"}
    assert "feed[1]: expected offset 0 next, found 2" in notes(lake)[0]


# -- streams without commit_ts ----------------------------------------------------------------------------------------


def undated(tmp_path: Path) -> SmallStream:
    stream = SmallStream(tmp_path, UndatedCanalJson())
    stream.create(0, A)
    rows(stream, range(1, 6))
    return stream


def test_by_arrival_a_capture_that_was_rotated_is_not_taken_for_the_former_one(tmp_path: Path):
    stream = undated(tmp_path)
    lake = stream.lake()
    lake.publish()
    assert ids(lake) == {"a": [1, 2, 3, 4, 5]}
    rows(stream, range(6, 9))
    lines = Lines(stream)
    lines.put(6, 7, 8)

    lake.publish()

    assert states(lake) == {"a": "stopped"}
    assert "expected new messages after the 6 messages that were consumed" in notes(lake)[0]
    lines.put_all()
    lake.publish()
    assert states(lake) == {"a": "live"}
    assert ids(lake) == {"a": [1, 2, 3, 4, 5, 6, 7, 8]}


def test_by_arrival_offsets_must_be_in_order(tmp_path: Path):
    stream = undated(tmp_path)
    lines, lake = Lines(stream), stream.lake()
    lines.put(0, 3, 4, 5, 1, 2)

    lake.publish()

    assert states(lake) == {"a": "stopped"}
    assert "feed[0]: expected offsets in ascending order" in notes(lake)[0]
    assert ids(lake) == {}


def test_by_arrival_a_hole_of_one_topic_holds_all_since_what_fills_it_moves_the_places_of_the_others(tmp_path: Path):
    stream = SmallStream(tmp_path, UndatedCanalJson(), BY_TABLE)
    stream.create(0, A, "s_a")
    stream.create(1, X, "s_x")
    for number in range(2, 6):
        stream.put(number, A, number, topic="s_a")
        stream.put(number, X, number, topic="s_x")
    lines, lake = Lines(stream), stream.lake()
    kept = [line for line in lines.all if '"topic": "s_a", "partition": 0, "offset": 2' not in line]
    lines.path.write_text("".join(kept))

    lake.publish()

    assert ids(lake) == {}
    assert all("s_a[0]: expected offset 2 next, found 3" in note for note in notes(lake))
    assert set(states(lake)) == {"a", "x"}
    lines.put_all()
    lake.publish()
    assert states(lake) == {"a": "live", "x": "live"}
    assert ids(lake) == {"a": [2, 3, 4, 5], "x": [2, 3, 4, 5]}


UNREADABLE = "ALTER TABLE `s`.`x` GARBAGE THINGS `y`"


@pytest.mark.parametrize("wire", [UndatedCanalJson(), CanalJson()], ids=["by arrival", "by commit_ts"])
def test_while_a_table_keeps_the_cursor_at_its_first_message_a_rotated_capture_must_overlap(wire: Wire, tmp_path: Path):
    stream = SmallStream(tmp_path, wire)
    stream.create(0, A)
    stream.create(1, X)
    rows(stream, range(2, 5))
    stream.ddl(5, UNREADABLE, X)
    stream.put(6, A, 6)
    stream.watermark(6)
    lake = stream.lake()
    lake.publish()
    assert states(lake) == {"a": "live", "x": "stopped"}
    former = len(Lines(stream).all)
    rows(stream, range(7, 16))
    stream.watermark(20)
    lines = Lines(stream)
    lines.path.write_text("".join(lines.all[former + 3 :]))

    lake.publish()

    assert states(lake) == {"a": "stopped", "x": "stopped"}
    assert f"feed[0]: expected offset 0 next, found {former + 3}" in notes(lake)[0]
    lines.put_all()
    lake.publish()
    assert states(lake) == {"a": "live", "x": "stopped"}
    assert ids(lake) == {"a": [*range(2, 5), *range(6, 16)]}


def test_by_arrival_accepted_offsets_move_no_places_of_messages_that_tables_have(tmp_path: Path):
    """While `x` is stopped nothing is consumed, and `a` has the first messages already."""
    stream = undated(tmp_path)
    stream.create(6, X)
    stream.ddl(7, UNREADABLE, X)
    stream.put(8, A, 8)
    lake = stream.lake()
    lake.publish()
    assert states(lake) == {"a": "live", "x": "stopped"}
    former = len(Lines(stream).all)
    rows(stream, range(9, 12))
    lines = Lines(stream)
    lines.path.write_text("".join(lines.all[former:]))
    skipping = stream.lake(skip_offsets=[f"feed[0]@0-{former - 1}"])

    skipping.publish()

    assert states(skipping) == {"a": "stopped", "x": "stopped"}
    assert (
        "feed[0]: expected the capture to begin at offset 0 as before, since only the places of messages"
        in (notes(skipping)[0])
    )
    lines.put_all()
    skipping.publish()
    assert ids(skipping) == {"a": [1, 2, 3, 4, 5, 8, 9, 10, 11]}
