"""Golden messages: the events of real messages of each protocol, field by field."""

from __future__ import annotations

import pytest

from ticdc_assets.protocols.registry import REGISTRY
from ticdc_assets.protocols.registry.detection import form_of
from ticdc_assets_tests.fixtures import read_jsonl
from ticdc_assets_tests.golden import files as golden_files
from ticdc_assets_tests.golden.messages import GOLDEN, decoded, plain, stream, wanted

FILES = list(read_jsonl(GOLDEN / f"{golden_files.FILE}.jsonl"))
STREAMS = sorted(path.stem for path in GOLDEN.glob("*.jsonl") if path.stem != golden_files.FILE)
CASES = [(name, number) for name in STREAMS for number in range(len(wanted(name)))]


@pytest.mark.parametrize(("name", "number"), CASES, ids=str)
def test_a_real_message_says_what_it_said_when_it_was_kept(name: str, number: int):
    head, messages = stream(name)

    assert [plain(event) for event in decoded(head, messages[number])] == wanted(name)[number]
    assert form_of(*messages[number]).protocol == head["protocol"]


@pytest.mark.parametrize("name", STREAMS)
def test_every_message_has_its_recorded_events(name: str):
    assert len(stream(name)[1]) == len(wanted(name)) > 0


def test_every_protocol_has_inserts_updates_and_deletes_among_them():
    found = {(stream(n)[0]["protocol"], e.get("op")) for n in STREAMS for m in wanted(n) for e in m}

    assert {(protocol, op) for protocol in REGISTRY for op in "IUD"} <= found


@pytest.mark.parametrize("number", range(len(FILES)), ids=[file["from"] for file in FILES])
def test_a_real_file_holds_what_it_held_when_it_was_kept(number: int):
    found = plain(golden_files.rows(FILES[number]))

    assert found == wanted(golden_files.FILE)[number]
    assert all(row["is"] == "RowEvent" for _, row in found)
    assert found
