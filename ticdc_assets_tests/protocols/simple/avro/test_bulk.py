"""The bulk decoder of Simple Avro gives the same result as the reference decoder, and decodes all plain messages."""

from __future__ import annotations

from functools import cache
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols.columnar.message_rows import BulkRows, Messages
from ticdc_assets.protocols.formats.compression import Compression
from ticdc_assets.protocols.protocol import DecoderOptions
from ticdc_assets.protocols.registry import REGISTRY
from ticdc_assets.protocols.simple import (
    decoder as simple,
)
from ticdc_assets.protocols.simple.avro import bulk as simple_avro_bulk
from ticdc_assets.protocols.simple.avro.images import _hash
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets_tests.fixtures import Workload, workloads
from ticdc_assets_tests.protocols.columnar.bulk_agreement import (
    ANY_COLUMN,
    LONGS,
    TEXTS,
    Pair,
    agree,
    every_damage,
    is_plain,
    pairs_of,
    reference,
    slow,
    spoiled,
    values_agree,
)
from ticdc_assets_tests.protocols.simple.avro.written import SPACE, WHOLE_PAYLOAD, simple_message

PLAIN = DecoderOptions()
every_simple = pytest.mark.parametrize("workload", workloads("simple-avro"), ids=lambda w: w.name)


@cache
def agreed(workload: Workload) -> tuple[BulkRows, list[Any]]:
    return agree(simple_avro_bulk, simple, pairs_of(workload), PLAIN)


@every_simple
def test_every_simple_row_equals_that_of_the_reference(workload):
    rows, events = agreed(workload)

    assert [is_plain(event) for event in events] == (~rows.left).tolist()


def test_a_stream_of_json_and_avro_is_read_in_both_forms():
    in_json, in_avro = (pairs_of(workloads(name, "seed1")[0]) for name in ("simple-json", "simple-avro"))
    mixed = [pair for both in zip(in_json, in_avro, strict=False) for pair in both]
    rows, events = agree(REGISTRY["simple"].bulk, simple, mixed, PLAIN)

    assert [is_plain(event) for event in events] == (~rows.left).tolist()


@pytest.mark.parametrize("pairs", [[], [(None, None)], [(None, b"")], [(None, b"\x16\x06\x06")], [(None, b"{}")]])
def test_a_batch_without_simple_rows_is_left(pairs):
    rows, _ = agree(simple_avro_bulk, simple, pairs, PLAIN)

    assert rows.left.all()


@every_simple
@pytest.mark.parametrize("zone", ["UTC", "Asia/Shanghai"])
def test_every_simple_value_is_typed_as_the_reference_types_it(workload, zone):
    rows, events = agreed(workload)
    shapes = {}
    for event in events:
        if isinstance(event, DdlEvent):
            for shape, version in ((event.after, event.hints.version), (event.before, event.hints.before_version)):
                if shape is not None:
                    shapes[shape.schema, shape.name, version] = {column.name: column for column in shape.columns}
    for table in rows.tables:
        columns = shapes[table.schema, table.table, table.schema_version]
        for arrays in (table.rows.wire, table.rows.before or ()):
            for name, array in zip(table.rows.columns, arrays, strict=False):
                values_agree(simple_avro_bulk.BULK.column, simple.value, columns[name], array, zone)


@pytest.mark.parametrize("compression", list(Compression))
def test_simple_rows_are_read_from_compressed_messages_too(compression):
    codec = {Compression.LZ4: "lz4", Compression.SNAPPY: "snappy"}.get(compression)
    pairs = pairs_of(workloads("simple-avro", "seed1")[0])
    packed = [(key, value if codec is None else pa.compress(value, codec, asbytes=True)) for key, value in pairs]
    rows, _ = agree(simple_avro_bulk, simple, packed, DecoderOptions(compression=compression))

    assert not rows.left.all()


@pytest.mark.parametrize("op", ["I", "U", "D"])
def test_no_damage_to_a_simple_message_is_taken_for_a_row_or_disturbs_others(op):
    workload = next(one for one in workloads("simple-avro", "seed1"))
    sound = [p for p in pairs_of(workload) if is_plain(reference(simple, [p], PLAIN)[0])][:200]
    events = reference(simple, sound, PLAIN)
    _, value = min((p for p, e in zip(sound, events, strict=True) if e.op == op), key=lambda pair: len(pair[1]))
    damaged_ones = [(None, one) for one in every_damage(value)]
    pairs = [pair for number, one in enumerate(damaged_ones) for pair in (sound[number % len(sound)], one)]
    rows, _ = agree(simple_avro_bulk, simple, pairs, PLAIN)

    assert rows.left.any()
    assert not rows.left[::2].any()


@slow
@given(workload=st.sampled_from(workloads("simple-avro", "seed1")), data=st.data())
def test_damaged_simple_messages_disturb_no_others(workload, data):
    agree(simple_avro_bulk, simple, data.draw(spoiled(pairs_of(workload))), PLAIN)


CELLS = [
    LONGS,
    TEXTS,
    st.binary(max_size=12),
    st.floats().map(lambda number: ("double", number)),
    st.floats(width=32).map(lambda number: ("float", number)),
    LONGS.map(lambda number: (f"{SPACE}.UnsignedBigint", {"value": number})),
    st.tuples(st.sampled_from(["UTC", "Asia/Shanghai", "", "Local", "Nowhere"]), TEXTS).map(
        lambda parts: (f"{SPACE}.Timestamp", {"location": parts[0], "value": parts[1]})
    ),
]
"""A value of every branch of the union."""
WHOLE_IMAGE = {
    "a": 1 << 40,
    "b" * 9: "Äö",
    "c": b"\xff",
    "d": ("double", -2.5),
    "e": ("float", 1.5),
    "f": (f"{SPACE}.UnsignedBigint", {"value": -1}),
    "g": (f"{SPACE}.Timestamp", {"location": "Ü", "value": "ö"}),
    "h": None,
}


@pytest.mark.parametrize("op", ["INSERT", "UPDATE", "DELETE"])
def test_no_damage_to_a_simple_message_of_every_branch_is_taken_for_a_row(op):
    new = None if op == "DELETE" else WHOLE_IMAGE
    old = {"INSERT": None, "DELETE": WHOLE_IMAGE}.get(op, dict(list(WHOLE_IMAGE.items())[1:]))
    message = simple_message({**WHOLE_PAYLOAD, "type": op, "data": new, "old": old})
    pairs = [(None, one) for damaged_one in every_damage(message) for one in (message, damaged_one)]
    rows, _ = agree(simple_avro_bulk, simple, pairs, PLAIN)

    assert rows.left[1::2].any()
    assert not rows.left[::2].any()


@pytest.mark.parametrize("text", ["Äö", "Ü", "ö"])
def test_old_text_that_is_not_utf8_leaves_its_own_row(text: str):
    old = {name: WHOLE_IMAGE[name] for name in ("b" * 9, "g")}
    rows = [("INSERT", WHOLE_IMAGE, None), ("UPDATE", WHOLE_IMAGE, old), ("DELETE", None, WHOLE_IMAGE)]
    sound = [simple_message({**WHOLE_PAYLOAD, "type": op, "data": new, "old": old}) for op, new, old in rows]
    head, _, rest = sound[1].rpartition(text.encode())
    broken = head + b"\xff" * len(text.encode()) + rest

    pairs = [(None, message) for message in (*sound, broken, *sound)]
    found, _ = agree(simple_avro_bulk, simple, pairs, PLAIN)

    assert found.left.tolist() == [False] * 3 + [True] + [False] * 3


def test_rows_that_are_not_alike_are_kept_apart():
    some = dict(list(WHOLE_IMAGE.items())[2:])
    images = [WHOLE_IMAGE, some, {**some, "c": 1}, {"a": 1}, {"a": None}, {"a": "x"}, dict(reversed(some.items()))]
    pairs = []
    for image in images * 2:
        for op, new, old in (("INSERT", image, None), ("UPDATE", image, {"a": 5}), ("UPDATE", image, {"h": None})):
            pairs.append((None, simple_message({**WHOLE_PAYLOAD, "type": op, "data": new, "old": old})))
    rows, _ = agree(simple_avro_bulk, simple, pairs, PLAIN)

    assert [8, 6, 1] == [len(table.rows.columns) for table in rows.tables]


def test_a_wide_row_costs_nothing_where_others_only_claim_to_be_as_wide():
    payload = {**WHOLE_PAYLOAD, "type": "INSERT", "data": {f"c{number}": None for number in range(4096)}, "old": None}
    wide = simple_message(payload)
    batch = Messages.from_pairs([(None, wide)] + [(None, wide[: wide.index(b"\x04c0") + 9])] * 50_000)
    rows = simple_avro_bulk.rows(batch, PLAIN)

    assert [0] == np.flatnonzero(~rows.left).tolist()


@pytest.mark.parametrize("name", ["n" * 256, "ü" * 128])
def test_rows_with_the_longest_names_that_a_column_can_have_are_read(name):
    payload = {**WHOLE_PAYLOAD, "type": "INSERT", "data": {name: 1, "a": 1}, "old": None}
    rows, _ = agree(simple_avro_bulk, simple, [(None, simple_message(payload))], PLAIN)

    assert not rows.left.any()


@pytest.mark.parametrize("name", ["n" * 257, "ü" * 129])
def test_rows_with_names_that_no_column_can_have_are_left(name):
    payload = {**WHOLE_PAYLOAD, "type": "INSERT", "data": {name: 1, "a": 1}, "old": None}
    rows, _ = agree(simple_avro_bulk, simple, [(None, simple_message(payload))], PLAIN)

    assert rows.left.all()


def test_a_version_with_very_many_sets_of_columns_is_left_in_part():
    payloads = [{**WHOLE_PAYLOAD, "type": "INSERT", "data": {name: 1}, "old": None} for name in "uvwxyz"]
    rows, _ = agree(simple_avro_bulk, simple, [(None, simple_message(payload)) for payload in payloads], PLAIN)

    assert [False] * 4 + [True] * 2 == rows.left.tolist()


def test_names_beyond_utf8_and_ids_below_zero_are_left_or_equal_those_of_the_reference():
    sound = {**WHOLE_PAYLOAD, "type": "INSERT", "data": {"a": 1}, "old": None}
    message = simple_message(sound)
    variants = [
        message.replace("shöp".encode(), b"sh\xff\xffp"),
        simple_message({**sound, "tableID": -7}),
        simple_message({**sound, "database": ""}),
        simple_message({**sound, "table": ""}),
        simple_message({**sound, "version": 2}),
        simple_message({**sound, "commitTs": 0}),
        simple_message({**sound, "schemaVersion": -1}),
        simple_message({**sound, "handleKeyOnly": True}),
        simple_message({**sound, "claimCheckLocation": ""}),
        simple_message({**sound, "data": {}}),
        simple_message({**sound, "data": None}),
        simple_message({**sound, "old": {"a": 2}}),
        simple_message({**sound, "type": "DELETE"}),
        simple_message({**sound, "type": "UPDATE", "data": None, "old": {"a": 2}}),
        simple_message({**sound, "checksum": {"version": 1, "corrupted": False, "current": 1, "previous": 0}}),
    ]
    pairs = [(None, one) for variant in variants for one in (message, variant)]
    rows, _ = agree(simple_avro_bulk, simple, pairs, PLAIN)

    assert not rows.left[::2].any()
    assert rows.left[1::2].tolist() == [number != 1 for number in range(len(variants))]


@pytest.mark.parametrize("name", [b"d", b"x"])
def test_a_column_that_comes_twice_or_that_others_lack_is_not_mistaken(name):
    message = simple_message({**WHOLE_PAYLOAD, "type": "INSERT", "data": WHOLE_IMAGE, "old": None})
    other = message.replace(b"\x02c", b"\x02" + name)
    rows, events = agree(simple_avro_bulk, simple, [(None, message), (None, other), (None, message)], PLAIN)

    assert other != message
    assert rows.left.tolist() == [False, isinstance(events[1], DecodeError), False]


def of_one_slot(count):
    """So many column names of equal length that are all looked for in the first slot of a set of their number."""
    slots = 1 << (2 * count).bit_length()
    names = (f"c{number}" for number in range(100_000, 1_000_000))
    of_first = (name for name in names if _hash(np.frombuffer(name.encode(), np.uint8), 0, len(name)) % slots == 0)
    return list(islice(of_first, count))


def test_names_of_one_slot_are_distinguished():
    name, other = of_one_slot(2)
    messages = [
        simple_message({**WHOLE_PAYLOAD, "type": "INSERT", "data": data, "old": None})
        for data in ({name: 1, other: 2}, {other: 2, name: 1}, {name: 1, "c99999": 2})
    ]
    pairs = [(None, message) for message in (*messages, messages[0].replace(other.encode(), b"c-00000"))]
    rows, _ = agree(simple_avro_bulk, simple, pairs, PLAIN)

    assert rows.left.tolist() == [False, False, False, False]
    assert [2, 1, 1] == [len(table) for table in rows.tables]


@pytest.mark.parametrize(("count", "is_left"), [(32, False), (33, True)])
def test_rows_with_too_many_names_of_one_slot_are_left(count, is_left):
    data = dict.fromkeys(of_one_slot(count), 1)
    message = simple_message({**WHOLE_PAYLOAD, "type": "INSERT", "data": data, "old": None})
    rows, _ = agree(simple_avro_bulk, simple, [(None, message)] * 3, PLAIN)

    assert rows.left.tolist() == [is_left] * 3


@pytest.mark.parametrize("number", [0, -1, 63, 64, -(1 << 63), (1 << 63) - 1, 1 << 62])
def test_numbers_of_every_length_are_read(number):
    message = simple_message({**WHOLE_PAYLOAD, "type": "INSERT", "data": {"a": number}, "old": None})
    rows, _ = agree(simple_avro_bulk, simple, [(None, message)], PLAIN)

    assert [number] == rows.tables[0].rows.wire[0].to_pylist()


@pytest.mark.parametrize("ending", [b"\x80" * 8 + b"\x00", b"\x80" * 9 + b"\x01", b"\x80" * 9 + b"\x02", b"\x80" * 10])
def test_long_forms_of_numbers_are_read_as_the_reference_reads_them(ending):
    message = simple_message({**WHOLE_PAYLOAD, "type": "INSERT", "data": {"a": 6}, "old": None})
    at = message.index(b"\x02a\x02\x0c") + 3
    longer = message[:at] + b"\x8c" + ending[1:] + message[at + 1 :]
    agree(simple_avro_bulk, simple, [(None, message), (None, longer)], PLAIN)


COLUMN_NAMES = ["a", "ab", "abcdefgh", "abcdefghi", "a" * 40 + "1", "a" * 40 + "2", "ü" * 64, " ", "id", "A"]


@st.composite
def simple_streams(draw: Any) -> list[Pair]:
    """Rows of a table with some columns, mostly of one branch each, in any order, with and without old values."""
    names = draw(st.lists(st.sampled_from(COLUMN_NAMES), min_size=1, max_size=6, unique=True))
    kinds = {name: draw(st.integers(0, 6)) for name in names}
    pairs: list[Pair] = []
    for _ in range(draw(st.integers(1, 12))):
        op = draw(st.sampled_from(["INSERT", "UPDATE", "DELETE"]))
        new, old = draw(images(names, kinds, whole=True)), draw(images(names, kinds, whole=False))
        payload = {
            "version": draw(st.sampled_from([1, 1, 1, 1, 2])),
            "database": draw(st.sampled_from(["shop", "shop", "Läden", ""])),
            "table": "t",
            "tableID": draw(LONGS),
            "type": op,
            "commitTs": draw(st.integers(-1, 1 << 62)),
            "buildTs": 1,
            "schemaVersion": draw(st.sampled_from([0, 5, 5, 5, 6])),
            "claimCheckLocation": draw(st.sampled_from([None] * 5 + ["", "file:///x"])),
            "handleKeyOnly": draw(st.sampled_from([None, False, False, False, True])),
            "checksum": None,
            "data": None if op == "DELETE" else new,
            "old": {"INSERT": None, "DELETE": new}.get(op, draw(st.sampled_from([old, new, None]))),
        }
        pairs.append((None, simple_message(payload)))
    return pairs


@st.composite
def images(draw: Any, names: list[str], kinds: dict[str, int], whole: bool) -> dict[str, Any]:
    sent = draw(st.permutations(names))
    if not whole or draw(st.integers(0, 9)) == 0:
        sent = sent[: draw(st.integers(0, len(sent)))]
    is_mixed = draw(st.integers(0, 9)) == 0
    return {name: draw(st.none() | (st.one_of(CELLS) if is_mixed else CELLS[kinds[name]])) for name in sent}


@slow
@given(pairs=simple_streams(), data=st.data())
def test_any_simple_values_and_types_equal_those_of_the_reference(pairs, data):
    rows, _ = agree(simple_avro_bulk, simple, pairs, PLAIN)
    for table in rows.tables:
        for array in (*table.rows.wire, *(table.rows.before or ())):
            column = data.draw(st.sampled_from(ANY_COLUMN))
            values_agree(simple_avro_bulk.BULK.column, simple.value, column, array, "Asia/Shanghai")
    agree(simple_avro_bulk, simple, data.draw(spoiled(pairs)), PLAIN)
