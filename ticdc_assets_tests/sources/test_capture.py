"""Captured messages: read in order, streamed, and refused with the place where they go wrong."""

from __future__ import annotations

import json
import struct
from base64 import b64encode
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ticdc_assets.errors import SourceError
from ticdc_assets.sources import capture, message_block
from ticdc_assets.sources.capture import Message, MessagePosition, messages, placed_messages
from ticdc_assets.sources.message_log import CaptureLog
from ticdc_assets_tests.fixtures import workloads

GOOD = {"topic": "t", "partition": 1, "offset": 7, "key": "aw==", "value": None, "ts_ms": 1700000000000}
MAYBE_BYTES = st.none() | st.binary(max_size=50)


def line(**changes) -> str:
    return json.dumps({**GOOD, **changes})


def write(folder, *lines):
    path = folder / "messages.jsonl"
    path.write_text("\n".join(lines))
    return path


def encoded(body: bytes | None) -> str | None:
    return None if body is None else b64encode(body).decode()


def record(ts_ms: int, key: bytes | None, value: bytes | None) -> bytes:
    parts = [struct.pack(">q", ts_ms)]
    for field in (key, value):
        parts += [struct.pack(">i", -1 if field is None else len(field)), field or b""]
    return b"".join(parts)


@given(st.lists(st.tuples(st.text(min_size=1), MAYBE_BYTES, MAYBE_BYTES), max_size=5))
def test_lines_come_back_as_the_messages_they_hold(tmp_path_factory, sent):
    wanted = [Message(topic, i % 3, i, key, value, 1000 + i) for i, (topic, key, value) in enumerate(sent)]
    lines = [
        json.dumps(
            {
                "topic": m.topic,
                "partition": m.partition,
                "offset": m.offset,
                "key": encoded(m.key),
                "value": encoded(m.value),
                "ts_ms": m.ts_ms,
            }
        )
        for m in wanted
    ]

    assert wanted == list(messages(write(tmp_path_factory.mktemp("capture"), *lines)))


@given(st.lists(st.tuples(MAYBE_BYTES, MAYBE_BYTES), max_size=5))
def test_records_come_back_with_their_ordinal_as_offset(tmp_path_factory, sent):
    path = tmp_path_factory.mktemp("capture") / "my-topic-12.bin"
    path.write_bytes(b"".join(record(1000 + i, key, value) for i, (key, value) in enumerate(sent)))

    wanted = [Message("my-topic", 12, i, key, value, 1000 + i) for i, (key, value) in enumerate(sent)]
    assert wanted == list(messages(path))


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ("{", "not JSON"),
        ("[1]", "a JSON list"),
        (line(topic=None), "`topic`"),
        (line(topic=""), "`topic`"),
        (line(partition="1"), "`partition`"),
        (line(partition=-1), "`partition`"),
        (line(offset=True), "`offset`"),
        (line(offset=1.0), "`offset`"),
        (line(ts_ms=1 << 64), "`ts_ms`"),
        (line(key="a"), "`key` as base64"),
        (line(key="a w=="), "`key` as base64"),
        (line(value="ключ"), "`value` as base64"),
        (line(value=5), "`value` as base64"),
        (json.dumps({k: v for k, v in GOOD.items() if k != "value"}), "`value` as base64"),
        (line()[:-5], "not JSON"),
    ],
)
def test_a_bad_line_is_refused_with_its_number(tmp_path, bad, says):
    path = write(tmp_path, line(), "", bad)
    read = messages(path)

    assert next(read).where == "t[1]@7"
    with pytest.raises(SourceError) as caught:
        next(read)
    assert caught.value.where == f"{path}:3"
    assert says in str(caught.value)


def test_the_content_of_a_bad_line_is_not_in_the_error(tmp_path):
    with pytest.raises(SourceError) as caught:
        list(messages(write(tmp_path, line(key="secret!"))))

    assert "secret" not in str(caught.value)


def test_a_line_longer_than_the_bound_is_refused_without_being_read_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(capture, "MAX_LINE_BYTES", 300)
    path = write(tmp_path, line(), line(value="A" * 400))
    read = messages(path)
    next(read)

    with pytest.raises(SourceError, match="at most 300 bytes"):
        next(read)


@pytest.mark.parametrize(
    ("tail", "says"),
    [
        (b"\0" * 5, "12 bytes"),
        (struct.pack(">qi", 1, 100) + b"abc", "116 bytes"),
        (struct.pack(">qi", 1, -2), "a length from -1"),
        (struct.pack(">qi", 1, (1 << 31) - 1), "a length from -1"),
        (struct.pack(">qi", 1, -1) + b"\0", "16 bytes"),
        (struct.pack(">qii", 1, -1, 8) + b"\0", "24 bytes"),
    ],
)
def test_a_record_that_does_not_end_is_refused_with_its_ordinal(tmp_path, tail, says):
    path = tmp_path / "t-0.bin"
    path.write_bytes(record(1, b"k", None) + tail)
    read = messages(path)
    next(read)

    with pytest.raises(SourceError, match=says) as caught:
        next(read)
    assert caught.value.where == f"{path}: record 1"


@pytest.mark.parametrize("name", ["bench.bin", "t-x.bin", "-1.bin", "t-².bin"])
def test_a_record_file_must_name_its_topic_and_partition(tmp_path, name):
    (tmp_path / name).touch()

    with pytest.raises(SourceError, match="<topic>-<partition>"):
        list(messages(tmp_path / name))


def test_a_folder_is_read_file_by_file(tmp_path):
    write(tmp_path, line())
    (tmp_path / "t-0.bin").write_bytes(record(5, b"k", b"v"))
    (tmp_path / "truth.jsonl").write_text("not messages")

    assert {("t", 1, 7), ("t", 0, 0)} == {(m.topic, m.partition, m.offset) for m in messages(tmp_path)}


def test_a_missing_file_and_an_empty_folder_are_refused(tmp_path):
    for path in (tmp_path / "none.jsonl", tmp_path):
        with pytest.raises(SourceError):
            list(messages(path))


def test_reading_starts_before_the_whole_file_is_there_to_be_read(tmp_path):
    path = write(tmp_path, *[line(offset=i) for i in range(1000)], "{")

    assert [m.offset for m in islice(messages(path), 3)] == [0, 1, 2]


@pytest.mark.parametrize("workload", workloads("open"), ids=lambda w: w.name)
def test_offsets_of_every_partition_rise_by_one(workload):
    seen: dict[tuple[str, int], int] = {}
    for message in messages(workload.root / "messages.jsonl"):
        where = (message.topic, message.partition)
        assert message.offset == seen.get(where, -1) + 1
        seen[where] = message.offset

    assert seen


@pytest.mark.parametrize("binary", [False, True])
def test_reading_goes_on_at_any_message_of_any_file(tmp_path, binary):
    for number in range(2):
        if binary:
            body = b"".join(record(n, b"k", None if n % 2 else b"v" * n) for n in range(4))
            (tmp_path / f"t-{number}.bin").write_bytes(body)
        else:
            lines = [line(partition=number, offset=n) for n in range(4)]
            (tmp_path / "messages.jsonl").write_text("\n".join([lines[0], "", *lines[1:]]))

    placed = list(placed_messages(tmp_path))

    assert [m for _, m in placed] == list(messages(tmp_path))
    for number, (place, _) in enumerate(placed):
        assert list(placed_messages(tmp_path, place)) == placed[number:]
        assert in_blocks(tmp_path, place) == placed[number:]


def in_blocks(path: Path, start: MessagePosition) -> list[tuple[MessagePosition, Message]]:
    return [one for block in CaptureLog(path).blocks(start) for one in block.messages()]


@given(
    st.lists(st.tuples(st.integers(-(1 << 63), (1 << 63) - 1), MAYBE_BYTES, MAYBE_BYTES), max_size=9),
    st.integers(1, 4),
    st.binary(max_size=40),
    st.none() | st.integers(0, 400),
)
def test_blocks_have_the_messages_of_a_capture_and_its_errors(tmp_path_factory, sent, count, tail, cut):
    """Also of a file that ends within a record or has bytes that are no record."""
    path = tmp_path_factory.mktemp("capture") / "t-1.bin"
    path.write_bytes((b"".join(record(*one) for one in sent) + tail)[:cut])
    wanted, error = [], ""
    try:
        wanted.extend(placed_messages(path))
    except SourceError as fault:
        error = str(fault)
    found, raised = [], ""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(message_block, "BLOCK_MESSAGES", count)
        try:
            for block in CaptureLog(path).blocks():
                found.extend(block.messages())
        except SourceError as fault:
            raised = str(fault)

    assert raised == error
    assert found[: len(wanted)] == wanted
    assert error or found == wanted


def test_reading_blocks_starts_before_the_whole_file_is_there_to_be_read(tmp_path):
    path = write(tmp_path, *[line(offset=i) for i in range(5000)], "{")

    assert next(CaptureLog(path).blocks()).offsets[:3].tolist() == [0, 1, 2]
