"""JSON messages of each protocol as TiCDC may write them, and some that it never does, as Hypothesis draws them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from ticdc_assets.protocols.canal_json import bulk as canal_json_bulk
from ticdc_assets.protocols.open_protocol import bulk as open_protocol_bulk
from ticdc_assets.protocols.protocol import DecoderOptions
from ticdc_assets.protocols.simple import json_bulk as simple_bulk
from ticdc_assets_tests.protocols.columnar.json_agreement import Pair, Stream


def mostly(usual: st.SearchStrategy[Any], rare: list[Any]) -> st.SearchStrategy[Any]:
    """What both forms read, and at times what the bulk form must leave or both refuse."""
    return st.integers(0, 15).flatmap(lambda number: st.sampled_from(rare) if number == 15 else usual)


NAMES = st.sampled_from(
    ["id", "ID", "a b", 'q"x,y', "na\u00efve", "\\", "p", "u", "d", "v", "t", "old", "data", "\u0000"]
)
STRINGS = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        ['"', "\\", '\\"', "\\\\", '},"old":[{', '}},"p":{"t":{"t":1', '"v":', '{"location":"a","value":"b"}']
    ),
    st.sampled_from(
        ["\u0000", "\u001f", "\u007f", "\u2028<>&", "\U0001f600", "null", "-1", "\\x41\\u00e9\\n\\U0001f600", "\\x4"]
    ),
)
NUMBERS = st.one_of(
    mostly(
        st.sampled_from(["0", "1e21", "1e+21", "-1.5e-07", "1.7976931348623157e+308", "5e-324"]),
        ["-0", "1e+309", "1E5", "01", "1."],
    ),
    st.integers(-(1 << 63) - 2, (1 << 64) + 2).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
)
TIMES = st.tuples(st.sampled_from(["UTC", "Asia/Tokyo", "", "Nowhere"]), STRINGS)
TSOS = mostly(st.sampled_from([1, 459802238374641668, (1 << 63) - 1]), [1 << 63, 0, -1])


def text(value: Any) -> str:
    """A JSON text as Go writes it, or with nothing escaped that need not be."""
    plain = orjson.dumps(value).decode()
    return plain.replace("<", "\\u003c").replace("&", "\\u0026") if isinstance(value, str) else plain


def members(given: Iterable[tuple[str, str]]) -> str:
    return "{" + ",".join(f"{text(name)}:{value}" for name, value in given) + "}"


def image_of(values: st.SearchStrategy[str]) -> st.SearchStrategy[list[tuple[str, str]]]:
    usual = st.lists(st.tuples(NAMES, values), min_size=1, max_size=4, unique_by=lambda column: column[0])
    return st.one_of(usual, usual, usual, st.lists(st.tuples(NAMES, values), max_size=4))


@st.composite
def canal(draw: st.DrawFn) -> Pair:
    found = image_of(mostly(st.one_of(STRINGS.map(text), st.just("null")), ["1", "true", "{}"]))
    new, old = draw(found), draw(st.one_of(st.none(), found))
    if draw(st.booleans()):
        old = [(name, value) for name, value in new if draw(st.booleans())]
    types = [(name, "4") for name, _ in new]
    parts = [
        '"id":0,"database":"shop"',
        f'"table":{text(draw(NAMES))}',
        '"pkNames":["id"],"isDdl":false',
        f'"type":"{draw(mostly(st.sampled_from(["INSERT", "UPDATE", "DELETE"]), ["CREATE"]))}"',
        f'"es":{draw(mostly(st.sampled_from([0, 1754006356335, 35184372088831]), [35184372088832]))},"ts":1,"sql":""',
        f'"sqlType":{members(types)}',
        f'"mysqlType":{members((name, text("int")) for name, _ in new)}',
        f'"old":{"null" if old is None else f"[{members(old)}]"}',
        f'"data":[{members(new)}]',
    ]
    if draw(st.booleans()):
        parts.append(f'"_tidb":{{"commitTs":{draw(TSOS)}{draw(st.sampled_from(["", rowkey()]))}}}')
    return None, ("{" + ",".join(parts) + "}").encode()


def rowkey() -> str:
    return ',"rowkey":"null"'


@st.composite
def simple_json(draw: st.DrawFn) -> Pair:
    times = TIMES.map(lambda time: members([("location", text(time[0])), ("value", text(time[1]))]))
    found = image_of(mostly(st.one_of(STRINGS.map(text), st.just("null"), times), ["1", "[]"]))
    kind = draw(st.sampled_from(["INSERT", "UPDATE", "DELETE"]))
    new = None if kind == "DELETE" else draw(mostly(found, [None]))
    old = None if kind == "INSERT" else draw(mostly(found, [None]))
    if new is not None and old is not None and draw(st.booleans()):
        old = [(name, draw(st.sampled_from([value, '"x"']))) for name, value in new]
    parts = [
        f'"version":1,"database":"shop","table":{text(draw(NAMES))},"tableID":{draw(mostly(st.just(117), [1 << 63]))}',
        f'"type":"{kind}","commitTs":{draw(TSOS)},"buildTs":1',
        f'"schemaVersion":{draw(TSOS)}',
        *([] if new is None else [f'"data":{members(new)}']),
        *([] if old is None else [f'"old":{members(old)}']),
    ]
    return None, ("{" + ",".join(parts) + "}").encode()


@st.composite
def open_event(draw: st.DrawFn) -> tuple[str, str]:
    def column(value: str) -> str:
        handle = draw(st.sampled_from(["", '"h":true,', '"h":false,']))
        return f'{{"t":{draw(st.sampled_from([3, 5, 15, 252]))},{handle}"f":65,"v":{value}}}'

    values = mostly(st.one_of(STRINGS.map(text), st.just("null"), NUMBERS), ["true", "[]"])
    images = [
        f'"{name}":{members((column_name, column(value)) for column_name, value in draw(image_of(values)))}'
        for name in draw(mostly(st.sampled_from(["u", "up", "d"]), ["pu", "dp", ""]))
    ]
    ids = draw(mostly(st.sampled_from(["", ',"rid":-1', ',"rid":7,"ptn":117', ',"ptn":1']), [',"ohk":true']))
    kind = draw(mostly(st.just(1), [2, 3]))
    return (
        f'{{"ts":{draw(TSOS)},"scm":"shop","tbl":{text(draw(NAMES))}{ids},"t":{kind}}}',
        "{" + ",".join(images) + "}",
    )


@st.composite
def open_message(draw: st.DrawFn) -> Pair:
    events = draw(st.lists(open_event(), min_size=1, max_size=3))
    return (1).to_bytes(8, "big") + framed(key for key, _ in events), framed(value for _, value in events)


def framed(bodies: Iterable[str]) -> bytes:
    return b"".join(len(body.encode()).to_bytes(8, "big") + body.encode() for body in bodies)


STREAMS = {
    "canal-json": (Stream("canal-json", canal_json_bulk.BULK, DecoderOptions()), canal()),
    "simple": (Stream("simple", simple_bulk.BULK, DecoderOptions()), simple_json()),
    "open": (Stream("open-protocol", open_protocol_bulk.BULK, DecoderOptions()), open_message()),
}
every_stream = pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
slow_enough = settings(deadline=None, max_examples=50, suppress_health_check=list(HealthCheck))
