"""Captures that rotate, have gaps or are of a topic that was created again: nothing is skipped silently."""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets_tests.deliveries.wires import WIRES, OpenProtocol, Wire
from ticdc_assets_tests.pipeline.changelog.findings import total
from ticdc_assets_tests.pipeline.small_streams import (
    BY_TABLE,
    SmallStream,
    at,
    ids,
    states,
    tso,
)
from ticdc_assets_tests.pipeline.stream.offsets.rewritten_capture import A, Lines, X, notes, rows


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
        'messages: feed[0]: expected offset 4 next, found 6: 2 messages are missing, "feed[0]@4-5". Restore '
        "them; if they may be lost, write the quoted text into the list skip_offsets."
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
    assert "feed[0]: expected offset 12 next, found 13: 1 message is missing, " in notes(lake)[0]
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


def test_a_partitions_file_that_begins_again_stops_its_tables(tmp_path: Path):
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
    assert report is not None and total(report).repeats == 0


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
