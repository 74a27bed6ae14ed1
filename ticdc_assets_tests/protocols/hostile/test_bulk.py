"""Damaged messages in bulk give the result of the reference decoder, or are left to it; the process never dies."""

from __future__ import annotations

from pathlib import Path

import pytest

from ticdc_assets_tests.apart import apart
from ticdc_assets_tests.protocols.hostile.damaged_batches import bombard_bulk
from ticdc_assets_tests.protocols.hostile.seeds import streams
from ticdc_assets_tests.protocols.hostile.targets import INPUTS

BULK_INPUTS = INPUTS // 400
"""A batch costs what its messages cost twice, and each of its values."""
TAKEN_LEAST = {
    "open": 1 / 100,
    "simple-json": 1 / 30,
    "simple-avro": 1 / 30,
    "canal-json-tidb": 1 / 30,
    "avro-ext": 1 / 15,
}
"""So much of what is damaged is still a message that the bulk form reads: half of what was counted, or more."""
IN_BULK = [name for name, stream in streams().items() if stream.known.bulk is not None]


@pytest.mark.parametrize("name", IN_BULK)
def test_a_damaged_message_is_to_bulk_what_it_is_to_the_reference(name: str, tmp_path: Path):
    at_work = tmp_path / "batch.pickle"

    try:
        outcome = apart(bombard_bulk, name, BULK_INPUTS, at_work, seconds_max=36_000)
    except AssertionError as error:
        error.add_note(f"the batch at work: {at_work.read_bytes()!r}")
        raise

    assert outcome.taken >= int(outcome.inputs * TAKEN_LEAST[name])
