"""Deliveries of messages, in all the ways that TiCDC and a capture may send them, against a model of the database.

The code is the pipeline's own from the first look to the commit: decoding, watermarks, statements, intervals, order,
repeats, cursors, Iceberg's metadata and data files, and the planning of mirrors. The catalog is in memory, mirrors are
folded in Python and workers run in this process (`memory_lake`, `folding`); catalogs that are written down, killed
runs and Spark are the work of the tests in `pipeline/`.
"""

from __future__ import annotations

import pytest

from ticdc_assets.errors import SchemaError
from ticdc_assets.schema.ddl import statements as ddl
from ticdc_assets.schema.ddl.parser import parse
from ticdc_assets.schema.history import sent_statements
from ticdc_assets_tests.deliveries.examples import deliver
from ticdc_assets_tests.deliveries.machine import MessageDeliveries
from ticdc_assets_tests.deliveries.wires import WIRES, CanalJson, OpenProtocol, SimpleJson, Wire

T = ("s", "t")


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)
def test_whatever_is_sent_again_or_late_the_lake_is_what_happened(wire: Wire):
    deliver(machine(wire))


def machine(wire: Wire) -> type[MessageDeliveries]:
    return type("Messages", (MessageDeliveries,), {"wire": wire})


def begun(wire: Wire, late: bool = False) -> MessageDeliveries:
    """A world of one partition and one table, of which a row has been written."""
    world = machine(wire)()
    world.begin(1, False, [(T, True, False)], True, late, late, [(0, "put", 1, 1)])
    return world


@pytest.mark.usefixtures("cheap")
def test_a_stream_goes_on_when_all_tables_that_sent_rows_are_gone():
    world = begun(OpenProtocol())
    world.alter(0, "drop table", 0, 1)
    world.teardown()


@pytest.mark.usefixtures("cheap")
def test_rows_wait_also_where_no_table_is_known_yet():
    world = begun(SimpleJson(), late=True)
    for value in (2, 3):  # the watermark goes on in the first run, and not before the second one
        world.transact([(0, "put", value, value)], 1)
        world.deliver([], [(0, 3)] * 2, None, 1)
    world.teardown()


@pytest.mark.usefixtures("cheap")
def test_a_table_that_a_bootstrap_tells_of_before_the_watermark_is_there_has_no_rows():
    world = machine(SimpleJson())()
    world.begin(2, False, [(T, True, False)], True, False, True, [(0, "put", 0, 0)] * 5)
    world.bootstrap()
    world.deliver([], [(1, 1), (1, 5), (10, 0), (9, 0)], None, 2)
    world.teardown()


@pytest.mark.usefixtures("cheap")
def test_rows_behind_a_statement_that_could_not_be_read_come_when_it_can(monkeypatch: pytest.MonkeyPatch):
    world = begun(CanalJson())
    world.alter(0, "add index", 0, 1)
    world.transact([(0, "put", 2, 2)], 1)
    with monkeypatch.context() as patch:
        patch.setattr(sent_statements, "statements_in", refused)
        world.ticdc.send_all()
        world.capture.take_all()
        world.publish()
        world.transact([(0, "put", 3, 3)], 1)
    world.teardown()


def refused(text: str) -> tuple[ddl.Statement, ...]:
    if "ADD INDEX" in text:
        raise SchemaError("here", "a statement that this version can read", "another", "Take a newer version.")
    return parse(text, "", restored=True)


@pytest.mark.usefixtures("cheap")
def test_rows_above_the_watermark_do_not_make_every_run_write():
    world = begun(OpenProtocol())
    world.transact([(0, "put", 2, 2)], 1)
    world.deliver([], [(0, 0)] * 2, None, 2)
    world.teardown()


@pytest.mark.usefixtures("cheap")
@pytest.mark.parametrize("described_late", [False, True], ids=["as it joined", "as it is now"])
def test_a_schema_file_is_taken_where_the_rows_bear_it_out(described_late: bool):
    """A table older than the stream is altered, written and renamed in one run."""
    world = begun(OpenProtocol(), late=True)
    world.transact([(0, "put", 2, 2)], 1)
    world.alter(0, "add column", 0, 1)
    world.transact([(0, "put", 2, 3)], 1)
    if described_late:
        (described,) = world.folder.glob("*.sql")
        described.write_text(world.database.live[0].create + ";\n")
    world.alter(0, "rename table", 1, 1)
    world.transact([(0, "put", 3, 3)], 1)
    world.teardown()
