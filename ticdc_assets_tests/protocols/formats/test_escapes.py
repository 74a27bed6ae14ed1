"""Unescaping whole columns and splitting whole batches of frames equal the functions for single values."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols.formats.escapes import unescaped
from ticdc_assets.protocols.formats.frames.bodies import frames
from ticdc_assets.protocols.open_protocol.bulk import split
from ticdc_assets.protocols.open_protocol.decoder import unquote
from ticdc_assets_tests.protocols.formats.frames.written import framed, go_quote

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


@settings(deadline=None)
@given(
    st.lists(
        st.one_of(
            st.none(),
            st.binary(max_size=20),
            st.lists(st.binary(max_size=4), max_size=4).map(lambda bodies: framed(*bodies)),
        )
    )
)
def test_frames_of_a_batch_are_those_of_each_message(messages):
    found, counts = split(pa.array(messages, pa.binary()), b"")

    wanted = [_frames(message) for message in messages]
    assert [len(bodies) for bodies in wanted] == counts.tolist()
    assert [body for bodies in wanted for body in bodies] == found.bodies.to_pylist()


def _frames(message: bytes | None) -> list[bytes]:
    try:
        return list(frames(message or b"", "here"))
    except DecodeError:
        return []
