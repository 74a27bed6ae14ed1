"""Deliveries of the storage sink, file by file, against a model of the database; what is real is told in
`test_messages`."""

from __future__ import annotations

import pytest

from ticdc_assets_tests.deliveries.examples import deliver
from ticdc_assets_tests.deliveries.storage_machine import StorageDeliveries


@pytest.mark.parametrize("form", ["csv", "canal-json"])
def test_whatever_is_written_again_or_late_the_lake_is_what_happened(form: str):
    deliver(type("Storage", (StorageDeliveries,), {"form": form}))
