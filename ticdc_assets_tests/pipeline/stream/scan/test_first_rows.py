"""The first row of each table, and its inferred columns, if one batch has rows of several tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from ticdc_assets.pipeline.stream.decode.task import VersionClock
from ticdc_assets.pipeline.stream.offsets.cursor import StreamCursor
from ticdc_assets.pipeline.stream.scan.scan import scan_all
from ticdc_assets.pipeline.stream.scan.state import StreamForm, StreamScan
from ticdc_assets.protocols.protocol import DecoderOptions
from ticdc_assets.sources.capture import Message, MessagePosition
from ticdc_assets.sources.message_block import blocks_of
from ticdc_assets.tso import LOGICAL_BITS
from ticdc_assets_tests.deliveries.database import Column, RowChange, Shape
from ticdc_assets_tests.deliveries.wires import CanalJson, OpenProtocol, Wire
from ticdc_assets_tests.pipeline.small_streams import UndatedCanalJson, in_bulk_or_one_by_one

ID = Column("id", "INT", nullable=False)
T = Shape(1, 1, "shop", "t", (ID, Column("v", "VARCHAR(9)")), "id", None, 0)
U = Shape(2, 1, "shop", "u", (ID, Column("w", "INT")), "id", None, 0)
BASE = 450_000_000_000_000_000


def row(at: int, shape: Shape, op: str = "I") -> RowChange:
    return RowChange(BASE + at, shape, op, {name: "7" if name == "v" else 7 for name in shape.names})


def scanned(
    wire: Wire,
    *sent: tuple[int, RowChange],
    deletes_are_keys: bool = False,
    clock: VersionClock = VersionClock.COMMIT_TS,
) -> StreamScan:
    """The scan of these rows, each sent to a partition."""
    options = DecoderOptions()
    form = StreamForm(wire.name, options, clock, deletes_are_keys=deletes_are_keys)
    return scan_all(blocks_of(placed(wire, sent)), form, StreamCursor())


def placed(wire: Wire, sent: Iterable[tuple[int, RowChange]]) -> Iterable[tuple[MessagePosition, Message]]:
    for offset, (partition, change) in enumerate(sent):
        [(key, value)] = wire.rows([change])
        yield MessagePosition(0, offset, offset), Message("feed", partition, offset, key, value, 0)


def first_schemas(found: StreamScan) -> dict[str, tuple[int, list[str], int]]:
    """By table: its first commit_ts, the columns that are inferred and when they take effect."""
    return {
        name: (ts - BASE, [c.name for c in event.after.columns], event.commit_ts - BASE)
        for folded, (_, name, ts) in found.tables.first_rows.items()
        if (event := found.tables.inferred.get(folded)) is not None and event.after is not None
    }


@pytest.fixture(params=["in bulk", "one by one"])
def _in_bulk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    in_bulk_or_one_by_one(monkeypatch, request.param == "in bulk")


@pytest.mark.usefixtures("_in_bulk")
@pytest.mark.parametrize("wire", [OpenProtocol(), CanalJson()], ids=lambda wire: wire.name)
def test_each_table_has_its_own_first_row(wire: Wire):
    """The first by commit_ts, not by arrival: rows of one table may be on several partitions."""
    older = replace(T, columns=(ID,))
    found = scanned(wire, (0, row(30, T)), (0, row(40, U)), (1, row(20, older)), (1, row(50, U)))

    assert first_schemas(found) == {"t": (20, ["id"], 19), "u": (40, ["id", "w"], 39)}
    assert found.tables.by_topic == {"feed": {("shop", "t"), ("shop", "u")}}
    assert found.commits.newest == BASE + 50


@pytest.mark.usefixtures("_in_bulk")
def test_deletes_that_may_be_keys_tell_no_columns():
    """The first row of a table with only a key says when the table was there, but not what columns it has."""
    sent = (0, row(10, replace(T, columns=(ID,)), "D")), (0, row(30, T)), (0, row(40, U, "D"))
    found = scanned(OpenProtocol(), *sent, deletes_are_keys=True)

    assert first_schemas(found) == {"t": (10, ["id", "v"], 29)}
    assert found.tables.first_rows["shop", "u"][2] == BASE + 40
    assert first_schemas(scanned(OpenProtocol(), *sent)) == {"t": (10, ["id"], 9), "u": (40, ["id", "w"], 39)}


@pytest.mark.usefixtures("_in_bulk")
def test_a_row_without_commit_ts_may_be_as_late_as_its_millisecond():
    """The first row of a table counts from the millisecond's begin: its columns are in effect before any row of it."""
    ms = BASE >> LOGICAL_BITS
    sent = [(0, row((7 << LOGICAL_BITS) + 5, T)), (0, row((9 << LOGICAL_BITS) + 5, T)), (1, row(5, U))]

    found = scanned(UndatedCanalJson(), *sent, clock=VersionClock.COMMIT_MS)

    last = (ms + 10 << LOGICAL_BITS) - 1
    assert (last >> LOGICAL_BITS, last + 1 >> LOGICAL_BITS) == (ms + 9, ms + 10)
    assert found.commits.newest == last
    assert {name: ts for _, name, ts in found.tables.first_rows.values()} == {
        "t": ms + 7 << LOGICAL_BITS,
        "u": ms << LOGICAL_BITS,
    }
    assert {event.commit_ts for event in found.tables.inferred.values()} == {
        (ms + 7 << LOGICAL_BITS) - 1,
        (ms << LOGICAL_BITS) - 1,
    }


@pytest.mark.usefixtures("_in_bulk")
def test_a_partition_is_read_up_to_its_first_row_above_a_tso():
    """By the newest row so far: rows of several tables of a partition are mixed, and repeats come with older times."""
    sent = [(0, row(at, T if at % 20 else U)) for at in (10, 30, 20, 30, 40, 50)]

    found = scanned(OpenProtocol(), *sent, (1, row(25, T)))

    assert [found.first_above(("feed", 0), BASE + high) for high in (9, 10, 20, 29, 30, 40, 49, 50)] == [
        *(0, 1, 1, 1, 4, 5, 5),
        found.offsets.ends["feed", 0],
    ]
    assert found.first_above(("feed", 1), BASE + 20) == 6


@pytest.mark.usefixtures("_in_bulk")
@pytest.mark.parametrize("wire", [OpenProtocol(), CanalJson()], ids=lambda wire: wire.name)
def test_the_first_row_of_a_commit_ts_tells_the_columns(wire: Wire):
    older = replace(T, columns=(ID,))

    assert first_schemas(scanned(wire, (0, row(20, T)), (1, row(20, older)))) == {"t": (20, ["id", "v"], 19)}
    assert first_schemas(scanned(wire, (0, row(20, older)), (1, row(20, T)))) == {"t": (20, ["id"], 19)}
