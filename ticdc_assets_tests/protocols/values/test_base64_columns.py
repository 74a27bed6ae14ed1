"""Base64 in whole columns is decoded as binascii decodes one text, or left to it."""

import base64
import binascii

import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ticdc_assets.protocols.values.base64_columns import base64_column

TEXTS = st.binary(max_size=9).map(lambda data: base64.b64encode(data).decode())
ALMOST = st.text("AZaz09+/=-_ \n\u00e9", max_size=9)


@settings(deadline=None)
@given(st.lists(st.none() | TEXTS, max_size=8))
def test_a_column_is_decoded(texts: list[str | None]):
    for column in (pa.array(texts, pa.string()), pa.array(texts, pa.string()).cast(pa.binary())):
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
