"""Deliveries of messages, in all the ways that TiCDC and a capture may send them, against a model of the database.

The code is the pipeline's own from the first look to the commit: decoding, watermarks, statements, intervals, order,
repeats, cursors, Iceberg's metadata and data files, and the planning of mirrors. The catalog is in memory, mirrors are
folded in Python and workers run in this process (`memory_lake`, `folding`); catalogs that are written down, killed
runs and Spark are the work of the tests in `pipeline/`.
"""

from __future__ import annotations

import pytest

from ticdc_assets_tests.deliveries.examples import deliver
from ticdc_assets_tests.deliveries.machine import MessageDeliveries
from ticdc_assets_tests.deliveries.memory_lake import small_and_cheap
from ticdc_assets_tests.deliveries.wires import WIRES, OpenProtocol, Wire

T = ("s", "t")


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)
def test_whatever_is_sent_again_or_late_the_lake_is_what_happened(wire: Wire):
    deliver(machine(wire))


def machine(wire: Wire) -> type[MessageDeliveries]:
    return type("Messages", (MessageDeliveries,), {"wire": wire})


def test_a_stream_goes_on_when_all_tables_that_sent_rows_are_gone():
    with small_and_cheap():
        world = machine(OpenProtocol())()
        world.begin(1, False, [(T, True, False)], True, False, [(0, "put", 1, 1)])
        world.alter(0, "drop table", 0, 1)
        world.teardown()
