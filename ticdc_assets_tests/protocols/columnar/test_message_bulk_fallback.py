"""Messages in another form are left to the reference decoder, and do not affect other messages."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ticdc_assets.protocols.columnar.message_rows import Messages
from ticdc_assets.protocols.protocol import DecoderOptions
from ticdc_assets.protocols.registry import REGISTRY
from ticdc_assets_tests.fixtures import workloads
from ticdc_assets_tests.protocols.columnar.json_agreement import Pair, Stream, agree, heads_agree, pairs_of, reference
from ticdc_assets_tests.protocols.columnar.json_messages import STREAMS, every_stream, framed, slow_enough


@st.composite
def fallback(draw: st.DrawFn, message: st.SearchStrategy[Pair]) -> Pair:
    """A message with some of its bytes changed, cut out or there twice."""
    key, value = draw(message)
    parts = [key, value]
    number = draw(st.integers(0, 1))
    chosen = parts[number]
    if chosen:
        start = draw(st.integers(0, len(chosen) - 1))
        end = draw(st.integers(start, min(len(chosen), start + 20)))
        with_what = draw(st.sampled_from([b"", b'"', b"}", b"\\", b"\xff", b"\x00", b",", chosen[start:end] * 2]))
        parts[number] = chosen[:start] + with_what + chosen[end:]
    return parts[0], parts[1]


@every_stream
@slow_enough
@given(data=st.data())
def test_damaged_messages_are_left_and_damage_no_others(stream, data):
    form, message = stream

    agree(form, data.draw(st.lists(st.one_of(message, fallback(message)), max_size=6)))


CAPTURED = {
    prefix: [pair for w in workloads(prefix, "seed1") if w.name.startswith(f"{prefix}/") for pair in pairs_of(w)]
    for prefix in ("canal-json-tidb", "simple-json", "open")
}


@pytest.mark.parametrize(
    ("prefix", "name"), [("canal-json-tidb", "canal-json"), ("simple-json", "simple"), ("open", "open")]
)
@slow_enough
@given(data=st.data())
def test_captured_messages_may_be_damaged_anywhere(prefix, name, data):
    message = st.sampled_from(CAPTURED[prefix])

    agree(STREAMS[name][0], data.draw(st.lists(st.one_of(message, fallback(message)), min_size=1, max_size=6)))


STRUCTURE = b'{}[],:"'
IN_ITS_PLACE = [bytes([byte]) for byte in STRUCTURE + b" 0x"]
BATCH = 400


def plain_rows(form: Stream, pairs: list[Pair]) -> list[Pair]:
    """The shortest message of each operation that bulk takes as it is."""
    taken = [pair for pair in pairs if not form.bulk.rows(Messages.from_pairs([pair]), form.options).left[0]]
    by_op: dict[str, Pair] = {}
    for pair in sorted(taken, key=lambda pair: len(pair[1] or b"")):
        for op in {row[2] for row in reference(form, pair)}:
            by_op.setdefault(op, pair)
    return list(by_op.values())


@pytest.mark.parametrize(
    ("prefix", "name"), [("canal-json-tidb", "canal-json"), ("simple-json", "simple"), ("open", "open")]
)
def test_any_sign_in_place_of_any_other_is_read_as_the_reference_reads_it(prefix: str, name: str):
    form = STREAMS[name][0]
    sound = plain_rows(form, CAPTURED[prefix])
    damaged = [
        (key, value[:place] + sign + value[place + 1 :])
        for key, value in sound
        if value
        for place, byte in enumerate(value)
        if byte in STRUCTURE
        for sign in IN_ITS_PLACE
        if sign != bytes([byte])
    ]

    assert len(sound) == 3
    assert len(damaged) > 1000
    for begin in range(0, len(damaged), BATCH):
        agree(form, [*sound, *damaged[begin : begin + BATCH], *sound])


def test_one_damaged_message_leaves_the_others_to_bulk():
    pairs = [pair for pair in CAPTURED["canal-json-tidb"] if b'"data":[{' in (pair[1] or b"")][:200]
    replaced = {3: b"\xff", 5: b"", 7: b'{"id":0', 11: (pairs[11][1] or b"") + b" "}

    form = STREAMS["canal-json"][0]
    tables = agree(form, [(None, replaced.get(n, value)) for n, (_, value) in enumerate(pairs)])

    assert sum(len(table) for table in tables) == len(pairs) - len(replaced)


def test_absent_keys_and_values_are_left():
    for form, _ in STREAMS.values():
        rows = form.bulk.rows(Messages.from_pairs([(None, None), (b"", b"")]), form.options)

        assert ((), [True, True]) == (rows.tables, rows.left.tolist())
        assert () == form.bulk.rows(Messages.from_pairs([]), form.options).tables


def test_a_key_that_is_not_utf8_is_left():
    body = '{"u":{"id":{"t":3,"h":true,"f":11,"v":1}}}'
    keys = [f'{{"ts":1,"scm":"shop","tbl":"{name}","t":1}}' for name in ("t1", "t2")]
    good, bad = ((1).to_bytes(8, "big") + framed([key]) for key in keys)
    form = STREAMS["open"][0]

    tables = agree(form, [(bad.replace(b"t2", b"t\xff"), framed([body])), (good, framed([body]))])

    assert [["t1"], [1]] == [[table.table for table in tables], tables[0].rows.line.to_pylist()]


def test_one_damaged_event_leaves_its_message_whole():
    pairs = [pair for pair in CAPTURED["open"] if (pair[1] or b"").count(b'{"u":') > 1][:2]
    form = STREAMS["open"][0]

    tables = agree(form, [pairs[0], (pairs[1][0], (pairs[1][1] or b"").replace(b'"t":', b'"T":', 1))])

    assert {0} == {line for table in tables for line in table.rows.line.to_pylist()}


def test_tables_versions_and_column_sets_are_kept_apart():
    def message(table: str, version: int, data: dict[str, str]) -> Pair:
        head = f'"version":1,"database":"shop","table":"{table}","tableID":1,"type":"INSERT","commitTs":5,"buildTs":1'
        return None, f'{{{head},"schemaVersion":{version},"data":{orjson.dumps(data).decode()}}}'.encode()

    one, two = {"id": "1", "a": "x"}, {"id": "1", "b": "x"}
    pairs = [
        message("t", 3, one),
        message("u", 3, one),
        message("t", 4, one),
        message("t", 3, two),
        message("t", 3, one),
    ]

    tables = agree(STREAMS["simple"][0], pairs)

    found = {(t.table, t.schema_version, t.rows.columns): t.rows.line.to_pylist() for t in tables}
    assert {
        ("t", 3, ("id", "a")): [0, 4],
        ("u", 3, ("id", "a")): [1],
        ("t", 4, ("id", "a")): [2],
        ("t", 3, ("id", "b")): [3],
    } == found


def test_small_tables_among_very_many_are_left():
    head = '"version":1,"database":"shop","table":"t%d","tableID":1,"type":"INSERT","commitTs":5,"buildTs":1'
    row = "{" + head + ',"schemaVersion":3,"data":{"id":"1"}}'
    pairs: list[Pair] = [(None, (row % number).encode()) for number in (*range(200), *[7] * 20)]

    tables = agree(STREAMS["simple"][0], pairs)

    assert [("t7", 21)] == [(table.table, len(table)) for table in tables]


def test_json_and_avro_of_the_simple_protocol_may_be_in_one_batch():
    (avro,) = (w for w in workloads("simple-avro", "seed1") if w.name.startswith("simple-avro/"))
    pairs = [pair for both in zip(CAPTURED["simple-json"], pairs_of(avro), strict=False) for pair in both]
    bulk = REGISTRY["simple"].bulk
    assert bulk is not None
    form = Stream("simple", bulk, DecoderOptions())
    wanted = {number: reference(form, pair) for number, pair in enumerate(pairs)}

    found = bulk.rows(Messages.from_pairs(pairs), form.options)

    heads_agree(form, pairs, wanted)
    rows = {number for number, events in wanted.items() if any(isinstance(event, tuple) for event in events)}
    assert rows == {line for table in found.tables for line in table.rows.line.to_pylist()}
    assert not any(found.left[number] for number in rows)
