"""Captures without commit_ts, whose rows are in order of arrival: no place of a message moves."""

from __future__ import annotations

from pathlib import Path

import pytest

from ticdc_assets_tests.deliveries.wires import CanalJson, Wire
from ticdc_assets_tests.pipeline.small_streams import (
    BY_TABLE,
    SmallStream,
    UndatedCanalJson,
    ids,
    states,
)
from ticdc_assets_tests.pipeline.stream.offsets.rewritten_capture import A, Lines, X, notes, rows


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
