"""Deliveries of the storage sink, file by file, against a model of the database; what is real is described in
`test_messages`."""

from __future__ import annotations

import pytest

from ticdc_assets_tests.deliveries.examples import deliver
from ticdc_assets_tests.deliveries.storage_machine import StorageDeliveries


@pytest.mark.parametrize("form", ["csv", "canal-json"])
def test_whatever_is_written_again_or_late_the_lake_is_what_happened(form: str):
    deliver(machine(form))


def machine(form: str) -> type[StorageDeliveries]:
    return type("Storage", (StorageDeliveries,), {"form": form})


@pytest.mark.usefixtures("cheap")
def test_a_file_that_never_comes_since_the_date_changed_is_passed_over_once_it_is_named():
    world = machine("csv")()
    world.begin([(("s", "t"), True, False)], True, False, True, [(0, "put", 1, 1)])
    world.deliver([], [(0, 0)] * 4, 2, 1)  # the schema and the index, not the file
    assert world.sink.absent
    world.restart(0)
    world.mishap(0, False)
    world.teardown()
