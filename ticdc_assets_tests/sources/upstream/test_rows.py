"""Rows of an upstream TiDB at a TSO: the queries, the values, and the errors."""

from __future__ import annotations

import socket
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlglot
from pymysql.converters import escape_item
from sqlglot import exp

from ticdc_assets.config.model.source import Upstream, UpstreamTls
from ticdc_assets.config.reading.secrets import Secret
from ticdc_assets.errors import NotYetError
from ticdc_assets.protocols.events import Op
from ticdc_assets.protocols.protocol import DecoderOptions
from ticdc_assets.protocols.registry import REGISTRY
from ticdc_assets.protocols.simple import decoder as simple
from ticdc_assets.protocols.values.checksum import ChecksummedRow, check
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.sources.capture import Message, placed_messages
from ticdc_assets.sources.upstream.rows import ROWS_MAX, ConnectionPolicy, UpstreamRows
from ticdc_assets.sources.upstream.sql import plain, select, value
from ticdc_assets_tests.fixtures import FIXTURES, Workload, of_full_set, workloads
from ticdc_assets_tests.hostile_names import HOSTILE
from ticdc_assets_tests.protocols.happened import parse_create
from ticdc_assets_tests.sources.upstream.kinds import KEYLESS, KINDS
from ticdc_assets_tests.sources.upstream.tidb_server import (
    CLOSE,
    HANG,
    PASSWORD,
    STEAL,
    USER,
    Fault,
    Snapshots,
    TidbServer,
)

QUICK = ConnectionPolicy(connect_s=2, answer_s=2, tries=2, pause_s=0.01)
TS = 459802242946170884
SHAPE = parse_create("CREATE TABLE `t` (`id` BIGINT,`v` VARCHAR(20),PRIMARY KEY(`id`))", "shop", "t")
NAME = ("shop", "t")
ID = [SHAPE.columns[0]]
SECRET_CELL = "nachtigall"


def rows(*ids: int, ts: int = TS, zone: str = "UTC") -> Snapshots:
    snapshots = Snapshots(zone)
    for number in ids:
        snapshots.add(SHAPE, ts, {"id": number, "v": f"{SECRET_CELL} {number}"})
    return snapshots


def upstream(server: TidbServer, **settings: Any) -> Upstream:
    return Upstream(
        **{"host": "127.0.0.1", "user": USER, "port": server.port, "password": Secret(PASSWORD), **settings}
    )


def asked(reader: UpstreamRows, *ids: int, ts: int = TS) -> list[str | None]:
    """The text of the rows of these ids."""
    found = reader.rows(NAME, SHAPE.columns, ID, [[number] for number in ids], ts)
    return [None if row is None else str(row["v"]).removeprefix(f"{SECRET_CELL} ") for row in found]


# -- what is asked ----------------------------------------------------------------------------------------------------


def test_rows_come_in_the_order_of_the_request_and_at_their_tso():
    with TidbServer(rows(1, 2, 3)).running() as server, UpstreamRows(upstream(server), QUICK) as reader:
        assert asked(reader, 3, 7, 1, 3) == ["3", None, "1", "3"]
        assert asked(reader, 3, ts=TS - 1) == [None]


def test_only_sets_and_selects_are_sent_and_a_snapshot_is_set_once_for_its_rows():
    with TidbServer(rows(*range(40))).running() as server, UpstreamRows(upstream(server), QUICK) as reader:
        assert asked(reader, *range(40)) == [str(number) for number in range(40)]

    words = [statement.split()[:3] for statement in server.asked]
    assert {word[0] for word in words} == {"SET", "SELECT"}
    assert sum(word[0] == "SELECT" for word in words) == -(-40 // ROWS_MAX)
    assert [s for s in server.asked if "tidb_snapshot" in s] == [f"SET SESSION tidb_snapshot = '{TS}'"]
    assert "time_zone = '+00:00', sql_mode = ''" in next(s for s in server.asked if "time_zone" in s)


@pytest.mark.parametrize(
    "name", [*(n for n in HOSTILE if n and "\ud800" not in n and "\0" not in n), "100%s", "%", "a`b"]
)
def test_names_and_keys_of_any_kind_stay_names_and_keys(name: str):
    text = parse_create("CREATE TABLE `t` (`k` VARCHAR(20))", "s", "t").columns
    statement, parameters = select(name, name, text, text, [[name]])

    written = statement % tuple(escape_item(p) for p in parameters)
    parsed = sqlglot.parse_one(written, read="mysql")
    table = parsed.find(exp.Table)
    assert (table.db, table.name, parsed.find(exp.EQ).right.name) == (name, name, name)


# -- what the cells mean ----------------------------------------------------------------------------------------------


def read(text: str, recorded: Any, wanted: list[Any], labels: bool = True) -> Any:
    """What a column of this type is read as, in a changefeed of Shanghai; `wanted` is its key, where it has one."""
    shape = parse_create(f"CREATE TABLE `t` (`id` INT,`v` {text})", *NAME)
    snapshots = Snapshots("Asia/Shanghai")
    snapshots.add(shape, TS, {"id": 1, "v": recorded})
    columns = list(shape.columns) if labels else [shape.columns[0], _without_labels(shape.columns[1])]
    key = columns[1:] if wanted else columns[:1]
    with TidbServer(snapshots).running() as server, UpstreamRows(upstream(server), QUICK) as reader:
        [found] = reader.rows(NAME, columns, key, [wanted or [1]], TS)
    assert found is not None
    return value(columns[1], found["v"], "Asia/Shanghai")


def _without_labels(column: Any) -> Any:
    return replace(column, type=replace(column.type, elements=None))


@pytest.mark.parametrize("text", KINDS)
def test_a_value_of_every_kind_is_read_and_finds_its_row_as_a_key(text: str):
    recorded, wanted = KINDS[text]

    assert read(text, recorded, []) == wanted
    assert read(text, recorded, [wanted]) == wanted


@pytest.mark.parametrize("text", KEYLESS)
def test_values_that_can_be_no_key_are_read(text: str):
    recorded, wanted = KEYLESS[text]

    assert read(text, recorded, []) == wanted


@pytest.mark.parametrize(("text", "number"), [("ENUM('a','b')", 2), ("SET('a','b')", 3)])
def test_labels_that_are_not_known_come_as_their_number_as_the_stream_sends_them(text: str, number: int):
    assert read(text, number, [], labels=False) == str(number)


CHECKED = [w for w in workloads("simple-json-checksum", "seed1") if FIXTURES]


@pytest.mark.parametrize("workload", of_full_set(CHECKED), ids=lambda w: w.name)
def test_a_row_that_is_read_has_the_checksum_that_tidb_computed_of_it(workload: Workload):
    events = [e for _, m in placed_messages(workload.root / "messages.jsonl") for e in decoded_simple(m)]
    shapes = {(e.schema, e.table, e.hints.version): e.after for e in events if isinstance(e, DdlEvent) and e.after}
    sound = damaged = 0
    with TidbServer(Snapshots.of(workload)).running() as server, UpstreamRows(upstream(server), QUICK) as reader:
        checked = [e for e in events if isinstance(e, ChecksummedRow) and e.op is not Op.DELETE and e.checksum.current]
        for event in checked[:150]:
            shape = shapes[event.schema, event.table, event.hints.schema_version]
            sent = [column for column in shape.columns if column.name in event.wire]  # no virtual ones
            key = [column for column in sent if column.name in shape.key]
            wanted = [REGISTRY["simple"].value(column, event.wire[column.name], "UTC") for column in key]
            [row] = reader.rows((event.schema, event.table), sent, key, [wanted], event.commit_ts)
            assert row is not None
            sound += check(replace(event, wire=row, before=None), shape, plain) is None
            text = next(c.name for c in sent if c.name not in shape.key and row[c.name] is not None)
            damaged += check(replace(event, wire={**row, text: None}, before=None), shape, plain) is not None
    assert sound == damaged > 100


def decoded_simple(message: Message) -> list[Any]:
    return list(simple.decode(message.key, message.value, "", DecoderOptions()))


# -- what goes wrong --------------------------------------------------------------------------------------------------


def error_of(server: TidbServer, **settings: Any) -> NotYetError:
    with UpstreamRows(upstream(server, **settings), QUICK) as reader, pytest.raises(NotYetError) as raised:
        asked(reader, 1)
    text = f"{raised.value!r} {raised.value} {raised.value.__cause__}"
    assert PASSWORD not in text
    assert SECRET_CELL not in text
    assert f"127.0.0.1:{server.port}" in raised.value.where
    assert raised.value.__suppress_context__ or raised.value.__context__ is None
    return raised.value


def on_select(fault: Fault) -> Any:
    return lambda statement: fault if statement.startswith("SELECT") else None


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ((8055, f"snapshot is older than GC safe point {SECRET_CELL}"), "tidb_gc_life_time"),
        ((9006, "GC life time is shorter than transaction duration"), "tidb_gc_life_time"),
        ((1146, f"Table '{SECRET_CELL}' doesn't exist"), "the table and its columns"),
        ((1054, "Unknown column"), "the table and its columns"),
        ((1142, "SELECT command denied"), "SELECT on the tables"),
        ((1105, f"a fault of {SECRET_CELL}"), "error 1105"),
    ],
)
def test_a_refusal_of_the_server_becomes_an_error_of_this_project(fault: Fault, words: str):
    with TidbServer(rows(1), on_select(fault)).running() as server:
        assert words in str(error_of(server))


def test_a_server_that_is_no_tidb_is_named_as_such():
    no_tidb = (1193, "Unknown system variable 'tidb_snapshot'")
    with TidbServer(rows(1), lambda s: no_tidb if "tidb_snapshot" in s else None).running() as server:
        assert "tidb_snapshot" in error_of(server).expected


def test_a_wrong_password_is_reported_without_it_and_tried_once():
    with TidbServer(rows(1)).running() as server:
        assert "upstream.password" in error_of(server, password=Secret("another")).advice
        assert server.asked == []


def test_a_server_that_asks_for_the_password_itself_does_not_get_it_over_an_open_connection():
    with TidbServer(rows(1)).running() as server:
        server.clear_password = True
        assert "upstream.tls" in error_of(server).advice
        assert server.stolen == b""


def test_a_server_that_asks_for_a_file_does_not_get_it():
    with TidbServer(rows(1), on_select(STEAL)).running() as server:
        error_of(server)
        assert server.stolen == b""


def test_a_refusal_is_of_one_question_and_the_next_is_asked():
    snapshots = rows(1)
    with TidbServer(snapshots).running() as server, UpstreamRows(upstream(server), QUICK) as reader:
        with pytest.raises(NotYetError):
            reader.rows(("shop", "gone"), SHAPE.columns, ID, [[1]], TS)
        assert asked(reader, 1) == ["1"]


def test_a_connection_that_is_lost_is_made_again_with_its_snapshot():
    faults = [None, CLOSE, None]
    with TidbServer(rows(1, 2)).running() as server:
        server.on = lambda statement: faults.pop(0) if statement.startswith("SELECT") else None
        with UpstreamRows(upstream(server), QUICK) as reader:
            assert asked(reader, 1) == ["1"]
            assert asked(reader, 2) == ["2"]

    assert sum("tidb_snapshot" in statement for statement in server.asked) == 2


@pytest.mark.parametrize("fault", [HANG, CLOSE])
def test_a_server_that_does_not_answer_is_given_up_in_time_and_not_asked_again(fault: Fault):
    impatient = ConnectionPolicy(connect_s=1, answer_s=1, tries=2, pause_s=0.01)
    begun = time.monotonic()
    with TidbServer(rows(1), on_select(fault)).running() as server, UpstreamRows(upstream(server), impatient) as reader:
        for _ in range(3):
            with pytest.raises(NotYetError, match="answers in time"):
                asked(reader, 1)

    assert sum(statement.startswith("SELECT") for statement in server.asked) == 2
    assert time.monotonic() - begun < 10


def test_an_address_where_nothing_listens_is_reported():
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
    reader = UpstreamRows(Upstream("127.0.0.1", USER, port), QUICK)

    with pytest.raises(NotYetError, match="the next run tries again"):
        asked(reader, 1)


def test_tidb_is_not_queried_before_there_is_a_row_to_complete():
    with TidbServer(rows(1)).running() as server, UpstreamRows(upstream(server), QUICK) as reader:
        assert asked(reader) == []

    assert server.asked == []


# -- TLS --------------------------------------------------------------------------------------------------------------


def test_an_authority_that_was_named_is_enough(certificate: Path):
    tls = UpstreamTls(ca=certificate.parent / "certificate.pem")
    with TidbServer(rows(1), certificate=certificate).running() as server:
        with UpstreamRows(upstream(server, tls=tls), QUICK) as reader:
            assert asked(reader, 1) == ["1"]
        assert server.encrypted == 1


def test_a_certificate_of_an_unknown_authority_is_refused_before_the_login(certificate: Path):
    with TidbServer(rows(1), certificate=certificate).running() as server:
        assert "upstream.tls.ca" in error_of(server, tls=UpstreamTls()).advice
        assert server.asked == []


def test_a_server_without_tls_gets_no_password_where_tls_is_asked_for():
    with TidbServer(rows(1)).running() as server:
        assert "TLS" in error_of(server, tls=UpstreamTls()).expected
        assert server.asked == []
