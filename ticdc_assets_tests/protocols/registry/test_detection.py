"""A message's protocol is recognised from its bytes, and no bytes make that fail."""

from __future__ import annotations

from base64 import b64decode
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ticdc_assets.protocols.csv.detection import CsvVotes
from ticdc_assets.protocols.formats.compression import Compression
from ticdc_assets.protocols.registry.detection import Votes, avro_modes, form_of
from ticdc_assets_tests.fixtures import Workload, read_jsonl, workloads

CAPTURES = [w for w in workloads() if (w.root / "messages.jsonl").is_file()]


def decoded(workload: Workload) -> list[tuple[bytes | None, bytes | None]]:
    lines = read_jsonl(workload.root / "messages.jsonl")
    return [tuple(None if line[n] is None else b64decode(line[n]) for n in ("key", "value")) for line in lines]


@pytest.mark.parametrize("workload", CAPTURES, ids=lambda w: w.name)
def test_every_single_message_tells_its_protocol(workload: Workload):
    wanted = workload.variant["sink_uri"].partition("protocol=")[2].partition("&")[0]

    found = Counter(form and form.protocol for form in (form_of(*message) for message in decoded(workload)))

    assert set(found) == {wanted}


@given(st.one_of(st.none(), st.binary(max_size=200)), st.one_of(st.none(), st.binary(max_size=400)))
@settings(max_examples=500, deadline=None)
def test_any_bytes_are_recognised_or_not_without_an_error(key: bytes | None, value: bytes | None):
    votes = Votes()

    votes.add(key, value)

    assert votes.messages == 1


@given(st.sampled_from(CAPTURES[:: max(1, len(CAPTURES) // 8)]), st.data())
@settings(max_examples=150, deadline=None)
def test_a_damaged_message_is_recognised_or_not_without_an_error(workload: Workload, data: st.DataObject):
    key, value = data.draw(st.sampled_from(decoded(workload)[:30]))
    at = data.draw(st.integers(0, len(value or b"")))
    damaged = (
        (value or b"")[:at] + data.draw(st.binary(max_size=3)) + (value or b"")[at + data.draw(st.integers(0, 3)) :]
    )

    form = form_of(key, damaged)

    assert form is None or form.protocol in {"open-protocol", "simple", "canal-json", "avro", "debezium"}


def test_a_message_of_no_protocol_has_no_form():
    assert form_of(None, None) is None
    assert form_of(b"key", b"") is None
    assert form_of(None, b'{"id": 1, "name": "ann"}') is None
    assert form_of(None, b"[" * 100_000) is None
    assert form_of(None, b"\x04\x22\x4d\x18 no lz4 frame") is None


def test_a_body_that_would_grow_without_bound_is_left():
    bomb = b"\xff\xff\xff\xff\x0f" + b"\x00" * 64

    assert form_of(None, bomb) is None


def test_most_messages_decide_and_the_others_are_named():
    votes = Votes()
    for _ in range(3):
        votes.add(None, b'{"isDdl": false, "type": "INSERT", "_tidb": {}}')
    votes.add(None, b'{"version": 1, "type": "WATERMARK"}')

    winner = votes.winner()

    assert winner is not None
    assert (winner.protocol, winner.compression) == ("canal-json", Compression.NONE)
    assert winner.marks == {"enable-tidb-extension"}
    assert votes.others() == {"simple": 1}


def test_schemas_tell_the_avro_protocols_modes():
    schema = b'{"fields":[{"type":["null",{"type":"string","connect.parameters":{"tidb_type":"DECIMAL"}}]},%s]}'
    unsigned = b'{"type":{"type":"long","connect.parameters":{"tidb_type":"BIGINT UNSIGNED"}}}'

    assert avro_modes((schema % unsigned).decode()) == {
        "avro-decimal-handling-mode": "string",
        "avro-bigint-unsigned-handling-mode": "long",
    }
    assert avro_modes("no schema") == avro_modes("[1]") == avro_modes('{"fields": [7]}') == {}


# -- CSV ---------------------------------------------------------------------------------------------------------------


def votes_of(*files: tuple[bytes, int]) -> CsvVotes:
    votes = CsvVotes()
    for data, columns in files:
        votes.add(data, "shop", "users", columns)
    return votes


@pytest.mark.parametrize(
    ("record", "wanted"),
    [
        (b'"I","users","shop",459802241048510466,1,"a"\r\n', (",", '"', True, False, False)),
        (b'"I","users","shop",1,"a"\r\n', (",", '"', False, False, False)),
        (b'"D","users","shop",459802241048510466,true,"1",1,"a"\n', (",", '"', True, True, True)),
        (b"U|+|users|+|shop|+|459802241048510466|+|1|+|a\n", ("|+|", "", True, False, False)),
        (b"'U'\t'users'\t'shop'\t459802241048510466\t1\t'a'\n", ("\t", "'", True, False, False)),
    ],
)
def test_a_record_tells_the_csv_options(record: bytes, wanted: tuple):
    found = votes_of((record, 2)).options()

    assert found is not None
    assert wanted == (
        found.delimiter,
        found.quote,
        found.include_commit_ts,
        found.output_old_value,
        found.output_handle_key,
    )


def test_a_column_of_one_table_that_looks_like_a_commit_ts_is_not_taken_for_one():
    found = votes_of((b'"I","users","shop",459802241048510466\n', 1), (b'"I","users","shop",7,"a"\n', 2)).options()

    assert found is not None
    assert not found.include_commit_ts


def test_virtual_columns_that_rows_leave_out_hide_no_handle_key():
    one_virtual = b'"I","users","shop",459802241048510466,"1",1\n', 2
    plain = b'"I","users","shop",459802241048510466,"1",1,2\n', 2

    found = votes_of(one_virtual, plain).options()

    assert found is not None
    assert found.output_handle_key


def test_values_tell_hex_from_base64():
    record = b'"I","users","shop",459802241048510466,"ff"\n', 1
    hexed, based = votes_of(record), votes_of(record)
    hexed.binary(["ffaa11", "00"])
    based.binary(["/+8=", None, ""])

    assert (hexed.options().binary_encoding_method, hexed.knows_binary_encoding) == ("hex", True)
    assert (based.options().binary_encoding_method, based.knows_binary_encoding) == ("base64", True)


def test_values_that_fit_both_encodings_are_said_to_tell_nothing():
    votes = votes_of((b'"I","users","shop",459802241048510466,"abcd"\n', 1))

    votes.binary(["abcd", "1234"])

    assert not votes.knows_binary_encoding


@pytest.mark.parametrize(
    ("cells", "null", "is_shown"),
    [(b'1,,"a"', "", True), (b"1,NULL,2", "NULL", True), (b"1,\\N,2", "\\N", True), (b"1,-2,3e+21", "\\N", False),
     (b"1,x,y", "\\N", False)],
)  # fmt: skip
def test_a_bare_text_among_quoted_ones_tells_how_null_is_written(cells: bytes, null: str, is_shown: bool):
    begin = b'"I","users","shop",459802241048510466,'
    votes = votes_of((begin + b'1,"a","b"\n' + begin + cells + b"\n", 3))

    assert (votes.options().null, votes.knows_null) == (null, is_shown)
    bare = votes_of((b"I,users,shop,459802241048510466,1,NULL,\n", 3))
    assert (bare.options().quote, bare.options().null, bare.knows_null) == ("", "\\N", False)


@given(st.binary(max_size=300))
@settings(max_examples=300, deadline=None)
def test_no_file_makes_the_csv_options_fail(data: bytes):
    votes = CsvVotes()
    votes.add(data, "shop", "users", 3)
    votes.add(b'"I","users","shop",' + data, "shop", "users", 3)

    options = votes.options()

    assert options is None or options.delimiter


def test_what_only_begins_like_a_message_of_simple_in_avro_has_no_form():
    [workload] = [w for w in CAPTURES if w.name == "simple-avro/seed1"]
    whole = next(value for _, value in decoded(workload) if value)

    found, cut = form_of(None, whole), form_of(None, whole[:-1])

    assert found is not None
    assert (found.protocol, found.encoding, cut) == ("simple", "avro", None)
