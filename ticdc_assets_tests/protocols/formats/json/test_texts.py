"""JSON texts of a known form: a text that matches gives what a JSON parser reads, any other is refused."""

import json
import re

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ticdc_assets.protocols.formats.json.template import (
    CODES,
    STRINGS,
    STRINGS_OR_NULLS,
    WITH_TIMES,
    WITH_TYPES,
    JsonTemplate,
    either,
    image,
    integer,
    literal,
    maybe,
    members,
    number,
    text,
    texts,
)
from ticdc_assets.protocols.formats.json.texts import JsonColumnNames, ScannedTexts, scan_texts
from ticdc_assets.protocols.formats.simd import VECTOR
from ticdc_assets.protocols.formats.span_columns import columns_of
from ticdc_assets.protocols.formats.string_arrays import IS_NULL

COMPILES = settings(deadline=None)
CHARACTERS = st.text(st.characters(codec="utf-8"), max_size=40)
IMAGE = JsonTemplate(image(0, may_be_empty=True))
TYPED = JsonTemplate(image(0, WITH_TYPES))
COLUMNS = ("a", "naïve", "x,y", 'q"')


ROOM = (b"", b'"' * VECTOR)
"""Behind the last text there is nothing, so that its bytes are looked at singly, or enough to look at many at once."""


def seen(
    form: JsonTemplate, *given: bytes, columns: tuple[str, ...] = (), behind: bytes = b""
) -> tuple[ScannedTexts, np.ndarray]:
    data = np.frombuffer(b"".join(given) + behind, np.uint8)
    bounds = np.cumsum([0, *(len(one) for one in given)])
    return scan_texts(data, bounds[:-1], bounds[1:], form, JsonColumnNames.of(columns))[0], data


def fits(form: JsonTemplate, given: bytes, columns: tuple[str, ...] = ()) -> bool:
    (found,) = {len(seen(form, given, columns=columns, behind=behind)[0]) for behind in ROOM}
    return found == 1


def strings_of(*given: bytes) -> list[str]:
    every = [_strings(*seen(JsonTemplate(text(0)), *given, behind=behind), len(given)) for behind in ROOM]
    assert every[0] == every[1]
    return every[0]


def _strings(found: ScannedTexts, data: np.ndarray, count: int) -> list[str]:
    assert len(found) == count
    (column,) = columns_of(data, found.strings, found.strings, np.ones(count, np.bool_))
    column.validate(full=True)
    return list(column.to_pylist())


def images_of(*given: bytes) -> list[dict[str, str | None]]:
    """Each image as a dict of its columns; null and not sent look alike."""
    every = [_images(*seen(IMAGE, *given, columns=COLUMNS, behind=behind), len(given)) for behind in ROOM]
    assert every[0] == every[1]
    return every[0]


def _images(found: ScannedTexts, data: np.ndarray, count: int) -> list[dict[str, str | None]]:
    assert len(found) == count
    columns = columns_of(data, found.images[0], found.images[0], np.ones(count, np.bool_))
    return [dict(zip(COLUMNS, row, strict=True)) for row in zip(*(c.to_pylist() for c in columns), strict=True)]


@COMPILES
@given(st.lists(st.tuples(CHARACTERS, st.booleans()), min_size=1, max_size=4))
def test_a_string_says_what_a_parser_reads(given: list[tuple[str, bool]]):
    written = [json.dumps(value, ensure_ascii=escaped).encode() for value, escaped in given]

    assert strings_of(*written) == [value for value, _ in given]


def test_every_escape_is_known():
    assert strings_of(rb'"\"\\\/\b\f\n\r\t\u0000\u00e9\u20AC\ud83d\ude00\uD83D\uDE00 "') == ['"\\/\b\f\n\r\t\0é€😀😀 ']


@pytest.mark.parametrize(
    "given",
    [
        b"",
        b'"',
        b'"a',
        b'a"',
        b'"a""',
        b'"a\n"',
        b'"\x00"',
        b'"\x1f"',
        rb'"\"',
        rb'"\x"',
        rb'"\u12"',
        rb'"\u12g4"',
        rb'"\ud83d"',
        rb'"\ud83d\n"',
        rb'"\ud83d\u0041"',
        rb'"\ude00"',
        rb'"\ud83d\ude0"',
        rb'"\ud83d\ud83d"',
        rb'"\u1234',
        b'"\\',
    ],
)
def test_what_is_no_string_is_refused(given: bytes):
    assert not fits(JsonTemplate(text()), given)
    with pytest.raises(orjson.JSONDecodeError):
        orjson.loads(given)


@pytest.mark.parametrize(
    "given",
    [b'"', b'"a', b'"\\', b'"\\u', b'"\\u0', b'"\\u004', b'"\\u0041', b'"\\ud83d', b'"\\ud83d\\ud', b'"\\ud83d\\ude0'],
)
@pytest.mark.parametrize("behind", [b'"', b'n"', b'0041"', b'u0041"', b'1"', b'\\ude00"', b'e00"', b'0"'])
def test_a_string_does_not_go_on_behind_the_end_of_its_text(given: bytes, behind: bytes):
    """Texts follow each other without a gap, so the next one may complete what is cut."""
    for more in ROOM:
        found, _ = seen(JsonTemplate(text()), given, behind, behind=more)
        assert 0 not in found.rows.tolist()


@COMPILES
@given(st.binary(max_size=24))
def test_whatever_is_taken_for_a_string_is_one(noise: bytes):
    given = b'"' + noise + b'"'
    if fits(JsonTemplate(text()), given):
        try:
            document = orjson.loads(given)
        except orjson.JSONDecodeError:
            with pytest.raises(UnicodeDecodeError):
                given.decode()
        else:
            assert strings_of(given) == [document]


@pytest.mark.parametrize("given", [0, 1, 10, (1 << 63) - 1])
def test_a_number_is_kept(given: int):
    found, _ = seen(JsonTemplate(number(0)), str(given).encode())

    assert found.numbers.tolist() == [[given]]


@pytest.mark.parametrize("given", [b"", b"-1", b"01", b"00", b"1.", b"1e3", b"9223372036854775808", b"1" * 40])
def test_what_is_no_whole_number_is_refused(given: bytes):
    assert not fits(JsonTemplate(number()), given)


def test_a_number_has_a_bound():
    assert fits(JsonTemplate(number(most=12)), b"12")
    assert not fits(JsonTemplate(number(most=12)), b"13")


@pytest.mark.parametrize("given", [b"[]", b'["a"]', rb'["a","\n",""]'])
def test_a_list_of_strings_is_passed_over(given: bytes):
    assert fits(JsonTemplate(texts()), given)


@pytest.mark.parametrize("given", [b"", b"[", b"[1]", b'["a",]', b'["a"', b'["a"}', b'["a""b"]', b"[,]"])
def test_a_list_of_other_values_than_strings_is_refused(given: bytes):
    assert not fits(JsonTemplate(texts()), given)


@pytest.mark.parametrize(
    ("piece", "given", "fit"),
    [
        (members(CODES), b'{"a":-5,"b":93}', True),
        (members(CODES), b'{"a":0}', True),
        (members(CODES), b'{"a":-0}', False),
        (members(CODES), b'{"a":-}', False),
        (members(CODES), b'{"a":1234567890}', False),
        (members(CODES), b'{"a":"b"}', False),
        (members(STRINGS), rb'{"a":"bigint","\u0041":""}', True),
        (members(STRINGS), b'{"a":null}', False),
        (members(STRINGS_OR_NULLS), b'{"a":null,"b":"null"}', True),
        (members(STRINGS_OR_NULLS), b'{"a":nul}', False),
        (members(STRINGS_OR_NULLS), b"{}", False),
        (members(STRINGS_OR_NULLS, may_be_empty=True), b"{}", True),
        (members(STRINGS), b'{"a":1}', False),
        (members(STRINGS), b"{}", False),
        (members(STRINGS), b'{"a":"b",}', False),
        (members(STRINGS), b'{"a":"b"', False),
        (members(STRINGS), b'{"a"', False),
        (members(STRINGS), b'{"a":', False),
    ],
)
def test_an_object_is_passed_over_where_it_is_sound(piece: tuple, given: bytes, fit: bool):
    assert fits(JsonTemplate(piece), given) is fit


def test_the_first_choice_with_the_same_beginning_is_taken():
    form = JsonTemplate(
        (*either([(b"a", literal(b"1")), (b"b", literal(b"2"))], literal(b"c")), *maybe(b"x", literal(b"y")))
    )

    assert [fits(form, given) for given in (b"a1", b"b2", b"c", b"a1xy", b"cxy")] == [True] * 5
    assert [fits(form, given) for given in (b"a2", b"b1", b"", b"a1x", b"cx", b"c1", b"a1y")] == [False] * 7


@COMPILES
@given(st.lists(st.dictionaries(st.sampled_from(COLUMNS), st.none() | CHARACTERS), min_size=1, max_size=4))
def test_an_image_has_its_columns_whatever_their_order_and_spelling(given: list[dict[str, str | None]]):
    written = [
        json.dumps(one, ensure_ascii=place % 2 == 0, separators=(",", ":")).encode() for place, one in enumerate(given)
    ]

    assert images_of(*written) == [dict.fromkeys(COLUMNS) | one for one in given]


@pytest.mark.parametrize(
    "given",
    [b'{"b":"1"}', b'{"a":"1","a":"2"}', rb'{"a":"1","\u0061":"2"}', b'{"a":1}', b'{"a":nul}', b'{"a":"1",}', b'{"a"'],
)
def test_an_image_with_another_column_or_a_value_of_another_kind_is_refused(given: bytes):
    assert not fits(IMAGE, given, COLUMNS)


def test_spellings_are_learnt_but_not_without_end():
    some = [rb'{"\u0061":"1"}', rb'{"q\"":"1"}', rb'{"x\u002cy":"1"}']
    more = [rb'{"\u0078,y":"1"}', rb'{"x,\u0079":"1"}', rb'{"\u0078\u002cy":"1"}']

    assert len(seen(IMAGE, *some * 3, columns=COLUMNS)[0]) == 9
    assert 3 <= len(seen(IMAGE, *some, *more, columns=COLUMNS)[0]) < 6


WHOLE = ["0", "7", "-7", "999999999999999999", "9223372036854775807", "-9223372036854775808", "18446744073709551615"]
FLOATS = ["-0.0", "0.5", "-12.25", "123456789012345678901.5", "1e-7", "-1.5e-07", "1e+21", "5e-324", "9.5e+307"]
LARGE = ["100000000000000000000", "-1e+308", "1.6e+308", "1.7976931348623157e+308"]
OTHER_NUMBERS = ["", "-", "-0", "00", "01", "-01", "1.", ".5", "1e5", "1E+5", "1e+", "0e+1", "12e+3", "1e+1000"]
TOO_LARGE = ["18446744073709551616", "-9223372036854775809", "9" * 40, f"0.{'1' * 31}"]
TOO_LARGE_FLOATS = ["2e+308", "1e+309", "1.8e+308", "1.7976931348623158e+308", "1.77e+308"]


@pytest.mark.parametrize("given", [*WHOLE, *FLOATS, *LARGE])
def test_a_number_of_go_is_kept_as_its_digits(given: str):
    found, data = seen(TYPED, b'{"a":{"t":3,"h":true,"f":65,"v":%s}}' % given.encode(), columns=COLUMNS)

    start, end = found.images[0, 0, 0].tolist()
    assert data[start:end].tobytes().decode() == given
    assert found.marks[0, 0, 0].tolist() == [start, end]
    assert isinstance(orjson.loads(given), int) is (given in WHOLE)


@pytest.mark.parametrize("given", [*OTHER_NUMBERS, *TOO_LARGE, *TOO_LARGE_FLOATS])
def test_a_number_that_go_does_not_write_is_refused(given: str):
    assert not fits(TYPED, b'{"a":{"t":3,"f":65,"v":%s}}' % given.encode(), COLUMNS)


@pytest.mark.parametrize(
    ("given", "fit"),
    [
        (b'{"t":3,"f":65,"v":"1"}', True),
        (b'{"t":3,"h":false,"f":0,"v":null}', True),
        (b'{"t":3,"h":true,"f":0,"v":1}', True),
        (b'{"t":3,"h":nul,"f":0,"v":1}', False),
        (b'{"t":-3,"f":0,"v":1}', False),
        (b'{"t":3,"f":1234567890,"v":1}', False),
        (b'{"t":3,"f":0,"v":true}', False),
        (b'{"t":3,"f":0,"v":1,"w":1}', False),
        (b'{"t":3,"f":0,"v":1', False),
        (b'"1"', False),
        (b"null", False),
        (b"1", False),
    ],
)
def test_a_value_with_its_type_is_taken_where_it_is_sound(given: bytes, fit: bool):
    for form in (TYPED, JsonTemplate(members(WITH_TYPES))):
        assert fits(form, b'{"a":%s}' % given, COLUMNS) is fit


@pytest.mark.parametrize(
    ("given", "fit"),
    [
        (b'{"location":"UTC","value":"2024-01-01 00:00:00"}', True),
        (rb'{"location":"\u0041","value":""}', True),
        (b'"plain"', True),
        (b"null", True),
        (b'{"location":null,"value":""}', False),
        (b'{"location":"UTC","value":null}', False),
        (b'{"location":"UTC"}', False),
        (b'{"value":"","location":"UTC"}', False),
        (b'{"location":"UTC","value":"","x":""}', False),
        (b'{"location":"UTC","value":""', False),
        (b"{}", False),
        (b"1", False),
    ],
)
def test_a_time_is_taken_where_it_is_sound(given: bytes, fit: bool):
    for form in (JsonTemplate(image(0, WITH_TIMES)), JsonTemplate(members(WITH_TIMES))):
        assert fits(form, b'{"a":%s}' % given, COLUMNS) is fit


def test_a_time_is_kept_with_its_zone():
    given = b'{"a":{"location":"UTC","value":"noon"},"x,y":"text"}'
    found, data = seen(JsonTemplate(image(0, WITH_TIMES)), given, columns=COLUMNS)

    texts, zones = ([data[a:b].tobytes() for a, b in of[0, 0].tolist() if a >= 0] for of in (found.images, found.marks))
    assert [texts, zones] == [[b"noon", b"text"], [b"UTC"]]


@pytest.mark.parametrize("given", [0, -1, 7, -((1 << 63) - 1), (1 << 63) - 1])
def test_an_integer_is_kept(given: int):
    found, _ = seen(JsonTemplate(integer(0)), str(given).encode())

    assert found.numbers.tolist() == [[given]]


@pytest.mark.parametrize("given", [b"", b"-", b"-0", b"--1", b"-01", b"+1", b"-9223372036854775808"])
def test_what_is_no_integer_is_refused(given: bytes):
    assert not fits(JsonTemplate(integer()), given)


def test_texts_of_another_form_among_others_are_passed_over():
    found, _ = seen(IMAGE, b'{"a":"1"}', b'{"a":1}', b'{"b":"1"}', b'{"a":null}', columns=COLUMNS)

    assert [found.rows.tolist(), found.others.tolist()] == [[0, 3], [2]]
    assert found.images[0, :, 0, 0].tolist() == [6, IS_NULL]


_STRING = r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-f]{4}))*"'
_MEMBERS = re.compile(rf"\{{{_STRING}:{_STRING}(?:,{_STRING}:{_STRING})*\}}")


@COMPILES
@given(
    st.dictionaries(CHARACTERS, CHARACTERS, min_size=1, max_size=4),
    st.integers(0),
    st.sampled_from(["", '"', "\\", ":", ",", "{", "}", "\n", " ", '\\"', '":"', '","']),
    st.integers(0, 2),
)
def test_members_are_texts_whatever_is_put_between_them(given: dict[str, str], at: int, put: str, instead_of: int):
    written = json.dumps(given, ensure_ascii=False, separators=(",", ":"))
    place = at % (len(written) + 1)
    changed = written[:place] + put + written[place + instead_of :]

    assert fits(JsonTemplate(members(STRINGS)), changed.encode()) == (_MEMBERS.fullmatch(changed) is not None)


def test_what_was_not_sent_is_taken_from_under_it():
    below, data = seen(IMAGE, b'{"a":"1","x,y":"2"}', b'{"a":"3","x,y":"4"}', columns=COLUMNS)
    above, more = seen(IMAGE, b'{"a":null}', b'{"x,y":"5"}', columns=COLUMNS)
    shifted = np.where(above.images[0] >= 0, above.images[0] + np.int32(len(data)), above.images[0])

    found = columns_of(np.concatenate((data, more)), shifted, below.images[0], np.array([True, True]))
    none = columns_of(data, below.images[0], below.images[0], np.array([False, True]))

    assert [column.to_pylist() for column in found] == [[None, "3"], [None, None], ["2", "5"], [None, None]]
    assert [column.to_pylist() for column in none] == [[None, "3"], [None, None], [None, "4"], [None, None]]
