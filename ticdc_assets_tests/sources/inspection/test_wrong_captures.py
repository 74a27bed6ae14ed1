"""An inspection of captured messages names what is wrong with them, and where."""

from __future__ import annotations

import json
import os
import shutil
from base64 import b64decode, b64encode
from pathlib import Path

import pytest

from ticdc_assets.errors import SourceError
from ticdc_assets_tests.fixtures import workloads
from ticdc_assets_tests.sources.inspection.inspected import fixture, inspected, place


def test_a_capture_that_is_cut_counts_up_to_there_and_says_where(capture: Path):
    lines = capture.read_bytes().splitlines(keepends=True)
    capture.write_bytes(b"".join(lines[:100]) + lines[100][:40])

    found = inspected(capture)

    assert found.read.messages == 100
    assert [p.where for p in found.problems.values()] == [f"{capture}:101"]


def test_a_binary_capture_that_is_cut_says_where(tmp_path: Path):
    body = b'{"isDdl": false, "type": "TIDB_WATERMARK", "_tidb": {"watermarkTs": 459802241048510466}}'
    record = (5).to_bytes(8, "big") + b"\xff\xff\xff\xff" + len(body).to_bytes(4, "big") + body
    file = tmp_path / "topic-0.bin"
    file.write_bytes(record * 3 + record[:50])

    found = inspected(tmp_path)

    assert (found.protocol, found.read.messages, found.events.watermarks) == ("canal-json", 3, 3)
    assert [p.where for p in found.problems.values()] == [f"{file}: record 3"]


def test_offsets_that_are_missing_or_occur_twice_are_reported(capture: Path):
    lines = capture.read_bytes().splitlines(keepends=True)
    partition = json.loads(lines[0])["partition"]
    own = [n for n, line in enumerate(lines) if json.loads(line)["partition"] == partition]
    del lines[own[5]]
    capture.write_bytes(b"".join([*lines, lines[own[0]]]))

    found = inspected(capture)

    assert found.partitions["oracle", partition].missing == 1
    assert [(p.expected, p.where) for p in found.problems.values()] == [
        ("offsets without gaps", f"oracle[{partition}]@6")
    ]
    assert any("in the capture twice" in note for note in found.notes)


def test_a_message_of_another_producer_is_a_problem_with_its_position(capture: Path):
    line = {"topic": "oracle", "partition": 9, "offset": 0, "key": None, "ts_ms": 1}
    no_message = b64encode(b"hello").decode()
    simple = b64encode(b'{"version":1,"type":"WATERMARK","commitTs":5,"buildTs":1}').decode()
    with capture.open("a") as file:
        file.write(
            json.dumps({**line, "value": no_message}) + "\n" + json.dumps({**line, "offset": 1, "value": simple}) + "\n"
        )

    found = inspected(capture)

    problems = {(p.where, p.found) for p in found.problems.values()}
    assert problems == {("oracle[9]@0", "one that the decoder cannot read"), ("oracle[9]@1", "one of simple")}


def test_a_stream_of_no_known_protocol_is_an_error_in_four_parts(tmp_path: Path):
    line = {"topic": "t", "partition": 0, "offset": 0, "key": None, "ts_ms": 1, "value": b64encode(b"secret").decode()}
    (tmp_path / "messages.jsonl").write_text(json.dumps(line) + "\n")

    with pytest.raises(SourceError) as error:
        inspected(tmp_path)

    assert "messages of a protocol that TiCDC writes" in str(error.value)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("name", ["messages.jsonl", "topic-0.bin"])
def test_an_empty_capture_is_an_error(tmp_path: Path, name: str):
    (tmp_path / name).write_bytes(b"")

    with pytest.raises(SourceError, match="found no message"):
        inspected(tmp_path)


def test_a_folder_of_something_else_is_an_error(tmp_path: Path):
    (tmp_path / "notes.txt").write_text("mine")

    with pytest.raises(SourceError, match="none of them"):
        inspected(tmp_path)
    with pytest.raises(SourceError, match="nothing of that name"):
        inspected(tmp_path / "absent")


def test_avro_without_its_registry_counts_by_topic_and_says_what_is_missing(tmp_path: Path):
    shutil.copy(fixture("avro-ext") / "messages.jsonl", tmp_path)

    found = inspected(tmp_path)

    assert found.protocol == "avro"
    assert found.counts.rows == found.read.messages
    assert {table.schema for table in found.tables.values()} == {""}
    assert [p.expected for p in found.problems.values()] == ["the registered schemas of the Avro protocol"]


def test_a_schema_that_the_registry_lacks_is_a_problem(tmp_path: Path):
    shutil.copy(fixture("avro-ext") / "messages.jsonl", tmp_path)
    schemas = json.loads((fixture("avro-ext") / "registry.json").read_text())
    (tmp_path / "registry.json").write_text(json.dumps(schemas[1:]))

    found = inspected(tmp_path)

    assert any(p.found == f"schema id {schemas[0]['id']}, which is not" for p in found.problems.values())


def test_claims_whose_files_are_missing_are_reported(tmp_path: Path):
    for workload in workloads("open-claim-check", "seed1"):
        shutil.copy(place(workload), tmp_path)
        found = inspected(tmp_path)

        assert [p.expected for p in found.problems.values()] == ["the file of a large message"]
        assert next(iter(found.problems.values())).count > 1


@pytest.mark.parametrize("name", ["x" * 5_000, "a\0b", "..", "."])
def test_a_claim_of_an_impossible_name_is_a_problem(tmp_path: Path, name: str):
    body = {"isDdl": False, "type": "INSERT", "database": "s", "table": "t", "es": 1, "data": [{"a": "1"}]}
    message = json.dumps({**body, "_tidb": {"commitTs": 5, "claimCheckLocation": f"file:///claims/{name}"}}).encode()
    line = {"topic": "t", "partition": 0, "offset": 0, "key": None, "ts_ms": 0, "value": b64encode(message).decode()}
    (tmp_path / "messages.jsonl").write_text(json.dumps(line) + "\n")
    (tmp_path / "claim-check").mkdir()

    assert len(inspected(tmp_path).problems) == 1


def test_what_is_neither_file_nor_folder_is_an_error(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(SourceError, match="a file or folder that can be read"):
        inspected(tmp_path / "pipe")


def test_rows_whose_schema_never_comes_are_reported(tmp_path: Path):
    lines = (fixture("simple-json") / "messages.jsonl").read_text().splitlines(keepends=True)
    without = [line for line in lines if b'"tableSchema"' not in b64decode(json.loads(line)["value"])]
    (tmp_path / "messages.jsonl").write_text("".join(without))

    found = inspected(tmp_path)

    assert any("the schema of " in p.expected for p in found.problems.values())
