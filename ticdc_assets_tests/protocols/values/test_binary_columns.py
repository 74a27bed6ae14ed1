"""Columns of Base64, Latin-1 and Go literals are decoded as single texts are, or left to the functions for these."""

from __future__ import annotations

import base64
import binascii

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ticdc_assets.protocols.open_protocol.decoder import unquote
from ticdc_assets.protocols.values.binary_columns import base64_column, latin1_column, unescaped
from ticdc_assets_tests.protocols.formats.written import go_quote

# -- Base64 -----------------------------------------------------------------------------------------------------------

TEXTS = st.binary(max_size=9).map(lambda data: base64.b64encode(data).decode())
ALMOST = st.text("AZaz09+/=-_ \n\u00e9", max_size=9)


@settings(deadline=None)
@given(st.lists(st.none() | TEXTS, max_size=8))
def test_a_column_is_decoded(texts: list[str | None]):
    plain = pa.array(texts, pa.string())
    for column in (plain, plain.cast(pa.binary()), pa.array(["QQ==", None, *texts], pa.string()).slice(2)):
        found = base64_column(column)

        assert found is not None
        found.validate(full=True)
        assert found.type == pa.binary()
        assert found.to_pylist() == [None if text is None else base64.b64decode(text) for text in texts]


@settings(deadline=None)
@given(st.lists(TEXTS, max_size=3), ALMOST, st.lists(TEXTS, max_size=3))
@example([], "QQ==QQ==", [])
@example(["QQ=="], "Q===", ["QQ=="])
@example([], "====", [])
@example([], "QR==", [])
@example([], "QQ=Q", [])
@example([], "Q", ["UVE"])
def test_a_text_is_decoded_as_binascii_does_or_refused_with_it(before: list[str], text: str, behind: list[str]):
    texts = [*before, text, *behind]

    found = base64_column(pa.array(texts, pa.string()))

    assert (None if found is None else found.to_pylist()) == _decoded(texts)


def _decoded(texts: list[str]) -> list[bytes] | None:
    try:
        return [binascii.a2b_base64(text, strict_mode=True) if _whole(text) else b"" for text in texts]
    except (binascii.Error, ValueError):
        return None


def _whole(text: str) -> bool:
    if len(text) % 4:
        raise ValueError
    return bool(text)


def test_bytes_of_nulls_are_not_decoded():
    offsets, data = pa.array([0, 4, 7, 11], pa.int32()).buffers()[1], pa.py_buffer(b"QUJD???RA==")
    validity = pa.array([True, False, True]).buffers()[1]
    column = pa.Array.from_buffers(pa.binary(), 3, [validity, offsets, data])

    found = base64_column(column)

    assert found is not None
    assert found.to_pylist() == [b"ABC", None, b"D"]


# -- Latin-1 ----------------------------------------------------------------------------------------------------------

BYTES = st.text(st.characters(max_codepoint=255), max_size=8)


@settings(deadline=None)
@given(st.lists(st.none() | BYTES, max_size=8))
def test_each_character_is_its_byte(texts: list[str | None]):
    for column in (pa.array(texts, pa.string()), pa.array(["\xff", None, *texts], pa.string()).slice(2)):
        found = latin1_column(column)

        assert found is not None
        found.validate(full=True)
        assert found.type == pa.binary()
        assert found.to_pylist() == [None if text is None else text.encode("latin-1") for text in texts]


def test_a_column_without_bytes_has_none():
    for texts in (pa.nulls(2, pa.string()), pa.array([], pa.string())):
        found = latin1_column(texts)
        assert found is not None
        assert (found.type, found.to_pylist()) == (pa.binary(), texts.to_pylist())


@settings(deadline=None)
@given(st.lists(BYTES, max_size=4), BYTES, st.characters(min_codepoint=256, codec="utf-8"), BYTES)
def test_a_text_with_a_character_outside_latin_1_is_refused(texts: list[str], before: str, other: str, behind: str):
    assert latin1_column(pa.array([*texts, before + other + behind], pa.string())) is None


# -- Go literals ------------------------------------------------------------------------------------------------------

QUOTED = st.lists(
    st.one_of(st.none(), st.one_of(st.binary(max_size=9), st.text(max_size=9).map(str.encode)).map(go_quote))
)
PIECES = st.sampled_from(["\\", "x", "4", "u", "U", "0", "1", "f", "n", '"', "d", "8", "e9", "\u00e9", "q"])


@settings(deadline=None)
@given(QUOTED)
def test_what_go_quoted_comes_back_in_bulk(quoted):
    found = unescaped(pa.array(quoted, pa.string()))

    assert found is not None
    assert [None if text is None else unquote(text, "here") for text in quoted] == found.to_pylist()


@settings(deadline=None)
@given(st.lists(st.lists(PIECES, max_size=8).map("".join), max_size=4))
def test_odd_go_literals_are_read_as_one_by_one_or_not_at_all(texts):
    found = unescaped(pa.array(texts, pa.string()))

    if found is not None:
        assert [unquote(text, "here") for text in texts] == found.to_pylist()


EDGES = [0, 0x7F, 0x80, 0x7FF, 0x800, 0xFFF, 0x1000, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x3FFFF, 0x40000, 0x10FFFF]


@pytest.mark.parametrize("point", EDGES, ids="U+{:04X}".format)
def test_the_first_and_last_character_of_each_length_in_utf8_comes_back(point: int):
    short = [f"a\\u{point:04x}z"] if point <= 0xFFFF else []
    wanted = f"a{chr(point)}z".encode()

    assert unescaped(pa.array([*short, f"a\\U{point:08x}z"])).to_pylist() == [wanted] * (len(short) + 1)


@pytest.mark.parametrize("point", [0xD800, 0xDFFF])
def test_a_surrogate_is_left_to_the_reference(point: int):
    assert unescaped(pa.array([f"\\u{point:04x}"])) is None


@pytest.mark.parametrize("text", ["\\", "\\q", "\\x4", "\\u12", "\\ud800", "\\U00110000"])
def test_one_bad_literal_leaves_the_column_to_the_reference(text):
    assert unescaped(pa.array(["fine", text, "\\x41"])) is None
