"""Columns of texts from their places in the data: nulls, values that are not sent, and escapes of three kinds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ticdc_assets.protocols.formats.simd import VECTOR
from ticdc_assets.protocols.formats.span_columns import (
    BACKSLASHES,
    JSON_ESCAPES,
    MYSQL_ESCAPES,
    Escapes,
    columns_of,
)
from ticdc_assets.protocols.formats.string_arrays import IS_NULL, NOT_SENT

Text = bytes | None
"""A text, with its escapes, None for null."""


class Texts:
    """Texts one after the other, with other bytes between them."""

    def __init__(self) -> None:
        self.data = b"|"

    def place(self, text: Text, escaped: bool = False) -> tuple[int, int]:
        if text is None:
            return IS_NULL, 0
        begin = len(self.data)
        self.data += text + b"|"
        end = begin + len(text)
        return begin, -1 - end if escaped else end


def columns(
    image: list[list[tuple[int, int]]], of: Texts, under: Any = None, rows: Any = None, behind: bytes = b"", **more: Any
) -> list[list[str | None]]:
    places = np.array(image, np.int64).reshape(len(image), -1, 2)
    below = places if under is None else np.array(under, np.int64)
    chosen = np.ones(len(image), np.bool_) if rows is None else np.array(rows)
    found = columns_of(np.frombuffer(of.data + behind, np.uint8), places, below, chosen, **more)
    for column in found:
        column.validate(full=True)
        assert column.type == pa.string()
    return [column.to_pylist() for column in found]


def unescaped(text: str, escapes: Escapes) -> str | None:
    """In data that end with the text, so that its bytes are looked at singly, and in longer ones."""
    found = set()
    for behind in (b"", b"|" * 2 * VECTOR):
        texts = Texts()
        place = texts.place(text.encode(), escaped=True)
        texts.data = texts.data[:-1]
        [[one]] = columns([[place]], texts, behind=behind, escapes=escapes)
        found.add(one)
    [one] = found
    return one


@pytest.mark.parametrize("rows", [0, 1, 7, 8, 9, 16, 17])
@pytest.mark.parametrize("behind", [b"", b"|" * 2 * VECTOR])
def test_each_column_has_its_own_texts_and_nulls(rows: int, behind: bytes):
    texts = Texts()
    sent = [[None if n % 3 == c else b"%d:%d" % (c, n) * n for n in range(rows)] for c in range(3)]
    wanted = [[None if text is None else text.decode() for text in column] for column in sent]
    image = [[texts.place(column[n]) for column in sent] for n in range(rows)]

    if rows:
        assert columns(image, texts, behind=behind) == wanted
    no_columns = np.zeros((rows, 0, 2), np.int64)
    assert columns_of(np.zeros(1, np.uint8), no_columns, no_columns, np.ones(rows, np.bool_)) == ()


@pytest.mark.parametrize("size", [0, 1, VECTOR - 1, VECTOR, VECTOR + 1, 3 * VECTOR])
def test_a_text_may_end_with_the_data(size: int):
    texts = Texts()
    image = [[texts.place(b"a" * size)], [texts.place(b"b" * size)]]
    texts.data = texts.data[:-1]

    assert columns(image, texts) == [["a" * size, "b" * size]]


def test_a_value_that_is_not_sent_is_the_one_below_it():
    texts = Texts()
    old = [[texts.place(b"a"), (NOT_SENT, 0)], [(NOT_SENT, 0), texts.place(None)], [(NOT_SENT, 0), texts.place(b"")]]
    new = [[texts.place(b"b"), texts.place(b"x" * 40)], [texts.place(b"c"), texts.place(b"d")], [(NOT_SENT, 0)] * 2]

    assert columns(old, texts, under=new) == [["a", "c", None], ["x" * 40, None, ""]]
    assert columns(old, texts, under=new, rows=[False, True, True]) == [[None, "c", None], [None, None, ""]]


@pytest.mark.parametrize("size", [0, 1, VECTOR - 1, VECTOR, VECTOR + 1, 2 * VECTOR, 2 * VECTOR + 1])
@pytest.mark.parametrize("escapes", [JSON_ESCAPES, BACKSLASHES, MYSQL_ESCAPES, Escapes.doubled(ord("'"))])
def test_an_escape_may_stand_anywhere_in_a_text_of_any_length(size: int, escapes: Escapes):
    mark = chr(escapes.mark)
    for place in {0, size // 2, max(0, size - 1), size}:
        plain = "x" * place, "y" * (size - place)
        assert unescaped(f"{plain[0]}{mark * 2}{plain[1]}", escapes) == f"{plain[0]}{mark}{plain[1]}"
        assert unescaped(f"{mark * 2}{plain[0]}{mark * 4}{plain[1]}", escapes) == (
            f"{mark}{plain[0]}{mark * 2}{plain[1]}"
        )


@pytest.mark.parametrize(
    ("escapes", "written", "meant"),
    [
        (JSON_ESCAPES, r"\"\\\/\b\f\n\r\t", '"\\/\b\f\n\r\t'),
        (JSON_ESCAPES, r"\u0041\u00e9\u20AC", "Aé€"),
        (JSON_ESCAPES, r"a\ud83d\ude00b", "a😀b"),
        (BACKSLASHES, r"\n\r\\\,\t\u", "\n\r\\,tu"),
        (MYSQL_ESCAPES, r"\0\b\n\r\t\Z\\\'\"\x\%", "\0\b\n\r\t\x1a\\'\"x%"),
        (Escapes.doubled(ord('"')), r'""\n""', r'"\n"'),
    ],
)
def test_escapes_mean_what_their_writer_means(escapes: Escapes, written: str, meant: str):
    assert unescaped(written, escapes) == meant


LAST = [0x00, 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF, 0xABCD, 0x12345]


@pytest.mark.parametrize("point", LAST, ids="U+{:04X}".format)
def test_a_character_by_its_number_is_its_utf8(point: int):
    units = chr(point).encode("utf-16-be")
    written = "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))

    assert unescaped(f"a{written}z", JSON_ESCAPES) == f"a{chr(point)}z"
    assert unescaped(f"a{written.upper().replace('U', 'u')}z", JSON_ESCAPES) == f"a{chr(point)}z"
