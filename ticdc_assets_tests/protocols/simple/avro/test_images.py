"""Row images of Simple Avro byte by byte: numbers, names and values up to the end of the bytes and not beyond it."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import fastavro
import numpy as np
import pytest

from ticdc_assets.protocols.simple.avro.images import (
    BYTES,
    DOUBLE,
    FLOAT,
    LONG,
    NOT_SENT,
    NULL,
    STRING,
    TIMESTAMP,
    UNSIGNED,
    _column,
    _length,
    _long,
    _value,
    column_names,
    empty_cells,
    scan_images,
)

NONE = -1


def bytes_of(data: bytes) -> Any:
    return np.frombuffer(b"\xaa" + data + b"\0" * 8, np.uint8)


def avro(schema: Any, value: Any) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


NUMBERS = [n for bits in (0, 6, 7, 13, 14, 20, 31, 48, 62) for n in (1 << bits, (1 << bits) - 1, -(1 << bits))]


@pytest.mark.parametrize("number", [*NUMBERS, (1 << 63) - 1, -(1 << 63)])
def test_a_number_is_read_from_all_of_its_bytes(number: int):
    data = avro("long", number)

    assert _long(bytes_of(data), 1, 1 + len(data)) == (number, 1 + len(data))
    for cut in range(len(data)):
        assert _long(bytes_of(data), 1, 1 + cut)[1] == NONE


@pytest.mark.parametrize(
    ("data", "after"),
    [
        (b"\xff" * 9 + b"\x01", 11), (b"\xff" * 9 + b"\x02", NONE), (b"\x80" * 9 + b"\x00", 11),
        (b"\x80" * 10 + b"\x00", NONE), (b"\x82\x80\x00", 4), (b"", NONE),
    ],
)  # fmt: skip
def test_a_number_has_at_most_64_bits_in_ten_bytes(data: bytes, after: int):
    assert _long(bytes_of(data), 1, 1 + len(data))[1] == after


def test_a_length_is_that_of_bytes_which_are_there():
    for data, found in ((b"\x04ab", (2, 2)), (b"\x00", (0, 2)), (b"\x04a", (0, NONE)), (b"\x01", (0, NONE))):
        assert _length(bytes_of(data), 1, 1 + len(data)) == found
    assert _length(bytes_of(b""), 1, 1) == (0, NONE)


NAMES = [["id", "name", "nama"], ["x", ""], [f"c{number}" for number in range(40)]]


def test_a_column_is_found_by_its_name_among_those_of_its_set():
    names, number = column_names(NAMES), 0
    for of, columns in enumerate(NAMES):
        for column in columns:
            data = avro("string", column)
            assert _column(bytes_of(data), 1, 1 + len(data), names, of) == (number, 1 + len(data))
            assert _column(bytes_of(data), 1, 1 + len(data), names, (of + 1) % 3)[1] == NONE
            number += 1
    for other in ("nam", "names", "Name", "i", "c40"):
        data = avro("string", other)
        assert all(_column(bytes_of(data), 1, 1 + len(data), names, of)[1] == NONE for of in range(3))
    assert _column(bytes_of(b"\x04i"), 1, 3, names, 0)[1] == NONE


def value(data: bytes, size: int | None = None) -> tuple[int, int, int, int]:
    """What follows a value, and what its cell holds."""
    cells = empty_cells(3)
    after = _value(bytes_of(data), 1, 1 + (len(data) if size is None else size), 1, cells)
    assert cells.branch.tolist()[::2] == [NOT_SENT] * 2
    return after, int(cells.branch[1]), int(cells.number[1]), int(cells.start[1])


VALUES = [
    (NULL, b"", 0, 1), (LONG, avro("long", -70_000), -70_000, 4), (FLOAT, avro("float", 1.5), 0, 1),
    (DOUBLE, avro("double", 1.5), 0, 1), (STRING, avro("string", "añ"), 3, 2), (STRING, b"\0", 0, 2),
    (BYTES, avro("bytes", b"\xff"), 1, 2), (UNSIGNED, avro("long", 5), 5, 2),
    (TIMESTAMP, avro("string", "UTC") + avro("string", "2024-01-01"), 10, 1), (TIMESTAMP, b"\0\0", 0, 1),
]  # fmt: skip


@pytest.mark.parametrize(("branch", "written", "number", "begin"), VALUES)
def test_a_value_ends_with_its_last_byte(branch: int, written: bytes, number: int, begin: int):
    data = bytes([2 * branch]) + written
    starts = {LONG: 1 + len(data), UNSIGNED: 1 + len(data)}.get(branch, begin + 1)

    assert value(data) == (1 + len(data), branch, number, starts)
    assert value(data + b"\0") == value(data)
    for size in range(len(data)):
        assert value(data, size) == (NONE, NOT_SENT, 0, 0)


@pytest.mark.parametrize("first", [1, 3, 15, 16, 17, 32, 0x80, 0x82])
def test_a_value_is_of_one_of_eight_branches(first: int):
    assert value(bytes([first]) + b"\0" * 8)[0] == NONE


# -- images ------------------------------------------------------------------------------------------------------------

ITEM = {"id": b"\x04id\x02\x0a", "name": b"\x08name\x00", "nama": b"\x08nama\x08\x02x"}


def scanned(*images: bytes, of: int = 0, ok: bool = True) -> list[tuple[bool, int, list[int]]]:
    """Of each image: whether it is sound, how many bytes were passed, and the branches of its cells."""
    data = b"".join(images)
    ends = np.cumsum([len(image) for image in images]) + 1
    at = np.concatenate(([1], ends[:-1]))
    base, sound, begins = np.arange(len(images)) * 3, np.full(len(images), ok), at.copy()
    cells = empty_cells(3 * len(images))
    scan_images(
        bytes_of(data), at, ends, sound, np.full(len(images), of, np.int64), base, column_names(NAMES[:2]), cells
    )
    return [
        (bool(sound[n]), int(at[n] - begins[n]), cells.branch[3 * n : 3 * n + 3].tolist()) for n in range(len(images))
    ]


def test_an_image_has_its_columns_in_any_order_and_may_lack_some():
    whole, other = b"\x06" + ITEM["nama"] + ITEM["id"] + ITEM["name"] + b"\0", b"\x02" + ITEM["name"] + b"\0"

    assert scanned(whole, other) == [
        (True, len(whole), [LONG, NULL, STRING]), (True, len(other), [NOT_SENT, NULL, NOT_SENT]),
    ]  # fmt: skip


BROKEN = {
    "no column": b"\0\0",
    "a negative number of columns": b"\x01" + ITEM["id"] + b"\0",
    "more columns than there are": b"\x08" + ITEM["id"] + ITEM["name"] + ITEM["nama"] + ITEM["id"] + b"\0",
    "a column twice": b"\x04" + ITEM["id"] * 2 + b"\0",
    "an unknown column": b"\x02\x04ix\x00\0",
    "a second block": b"\x02" + ITEM["id"] + b"\x02" + ITEM["name"] + b"\0",
    "no end": b"\x02" + ITEM["id"],
    "a value that is cut": b"\x02\x04id\x08\x04x",
    "nothing": b"",
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_an_image_of_another_form_is_passed_whole_and_disturbs_no_other(broken: bytes):
    sound = b"\x02" + ITEM["id"] + b"\0"

    before, (ok, passed, _), behind = scanned(sound, broken, sound)

    assert (ok, passed) == (False, len(broken))
    assert before == behind == (True, len(sound), [LONG, NOT_SENT, NOT_SENT])


def test_an_image_of_another_set_or_of_a_broken_message_is_not_read():
    image = b"\x02" + ITEM["id"] + b"\0"

    assert scanned(image, of=1) == [(False, len(image), [NOT_SENT] * 3)]
    assert scanned(image, ok=False) == [(False, 0, [NOT_SENT] * 3)]
