"""An inspection tells what a stream is, counts what is in it, and names what is wrong; whatever the bytes are."""

from __future__ import annotations

import json
import os
import shutil
import tracemalloc
from base64 import b64decode, b64encode
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ticdc_assets.config import load
from ticdc_assets.errors import SourceError
from ticdc_assets.sources.inspection import Bounds, Inspection, inspect_source
from ticdc_assets.sources.inspection.settings import config_lines
from ticdc_assets_tests.fixtures import CORPUS, FIXTURES, Workload, workloads

ALL = workloads(seed="seed1")
EVERYTHING = Bounds(None, None)
FIXTURE_ROOT = FIXTURES or CORPUS / "fixtures"


def place(workload: Workload) -> Path:
    data = workload.root / "data"
    return data if data.is_dir() else workload.root / "messages.jsonl"


def inspected(path: Path, bounds: Bounds = EVERYTHING) -> Inspection:
    return inspect_source(str(path), bounds)


@cache
def seen(workload: Workload) -> Inspection:
    return inspected(place(workload))


def fixture(variant: str) -> Path:
    return FIXTURE_ROOT / variant / "seed1"


def written(workload: Workload, folder: Path) -> Any:
    """The changefeed as the fixture's own configuration has it, loaded."""
    feed = {
        "sink_uri": workload.variant["sink_uri"],
        "config": workload.variant["config"],
        "source": {"storage" if place(workload).is_dir() else "capture": str(place(workload))},
    }
    if (workload.root / "registry.json").exists():
        feed["schema_registry"] = {"file": str(workload.root / "registry.json")}
    return loaded(yaml.safe_dump({"changefeeds": {"written": feed}}), folder / "written.yaml")


def loaded(text: str, file: Path) -> Any:
    file.write_text(text)
    return load(file, {}).changefeeds[0]


# -- recognised --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workload", ALL, ids=lambda w: w.name)
def test_the_suggested_config_reads_the_stream_as_its_own_config_does(workload: Workload, tmp_path: Path):
    found = seen(workload)

    suggested = loaded(config_lines(found), tmp_path / "suggested.yaml")
    wanted = written(workload, tmp_path)

    for name in ("protocol", "enable_tidb_extension", "has_commit_ts", "has_watermark", "encoding_format"):
        assert (name, getattr(suggested.sink, name)) == (name, getattr(wanted.sink, name))
    assert suggested.sink.large_message.compression == wanted.sink.large_message.compression
    assert suggested.sink.large_message.option == wanted.sink.large_message.option
    assert suggested.sink.large_message.claim_check_raw_value == wanted.sink.large_message.claim_check_raw_value
    assert suggested.sink.integrity.check_level == wanted.sink.integrity.check_level
    assert suggested.sink.open_output_old_value == wanted.sink.open_output_old_value
    assert suggested.source == wanted.source
    if place(workload).is_dir():
        assert suggested.sink.date_separator == wanted.sink.date_separator
        assert suggested.sink.file_index_width == wanted.sink.file_index_width
    if suggested.sink.protocol == "csv":
        assert _but_line_ends(suggested.sink.csv) == _but_line_ends(wanted.sink.csv)


def _but_line_ends(csv: Any) -> dict[str, Any]:
    return {name: getattr(csv, name) for name in csv.__slots__ if name != "terminator"}


def test_the_zone_of_timestamps_is_told_where_the_stream_tells_it():
    for workload in workloads("simple-json", "seed1"):
        assert seen(workload).settings.get("time_zone", workload.time_zone) == workload.time_zone


@pytest.mark.parametrize("workload", ALL, ids=lambda w: w.name)
def test_what_the_stream_cannot_tell_is_noted_and_nothing_else(workload: Workload, tmp_path: Path):
    sink = written(workload, tmp_path).sink
    notes = " ".join(seen(workload).notes)

    assert ("no commit_ts" in notes) == (not sink.has_commit_ts and sink.protocol != "avro")
    assert ("no watermarks" in notes) == (not sink.has_watermark and sink.protocol == "debezium")
    assert ("no statements" in notes) == (sink.protocol == "avro" and not sink.avro_enable_watermark)


# -- counted -----------------------------------------------------------------------------------------------------------


def happened(workload: Workload) -> tuple[Counter[str], Counter[str]]:
    """By table: rows that are there after a change (inserts and updates), rows that were there before it."""
    after: Counter[str] = Counter()
    before: Counter[str] = Counter()
    for event in workload.events:
        if event["kind"] == "dml":
            name = f"{event['schema']}.{event['table']}"
            after[name] += event["op"] != "delete"
            before[name] += event["op"] != "insert"
    return after, before


@pytest.mark.parametrize(
    "workload", [w for w in ALL if not w.name.startswith("avro") and "restart" not in w.name], ids=lambda w: w.name
)
def test_rows_and_statements_are_those_that_happened(workload: Workload):
    """An update of a key is sent as two changes: so new rows and gone rows count, not kinds of changes."""
    after, before = happened(workload)
    found = seen(workload)
    counts = {f"{t.schema}.{t.table}": t.counts for t in found.tables.values() if t.counts.rows}

    assert {
        name: c.inserts + c.updates + c.upserts for name, c in counts.items() if c.inserts + c.updates + c.upserts
    } == +after
    if not found.counts.upserts:
        assert {name: c.updates + c.deletes for name, c in counts.items() if c.updates + c.deletes} == +before
    assert found.statements == sum(event["kind"] == "ddl" for event in workload.events)
    assert found.whole
    assert not found.counts.upserts or "no-old-value" in workload.name


@pytest.mark.parametrize("workload", [w for w in ALL if w.name.startswith("avro")], ids=lambda w: w.name)
def test_avro_rows_count_by_what_their_schemas_tell(workload: Workload):
    found = seen(workload).counts
    sent = sum(event["kind"] == "dml" for event in workload.events)

    assert found.rows >= sent
    assert bool(found.upserts) == (
        "ext" not in workload.name and "checksum" not in workload.name and "watermark" not in workload.name
    )


@pytest.mark.parametrize("workload", ALL, ids=lambda w: w.name)
def test_times_lie_in_the_stream_and_the_watermark_is_its_last(workload: Workload):
    found = seen(workload)
    resolved = [event["ts"] for event in workload.events if event["kind"] == "resolved"]
    ends = [event["commit_ts"] for event in workload.events if event["kind"] in ("ddl", "dml")]

    for table in found.tables.values():
        assert table.first_ts is None or min(ends) >> 18 <= table.first_ts >> 18 <= table.last_ts >> 18
    if found.watermark is not None and "internal" not in workload.name:
        assert found.watermark in {*resolved, *ends}


def test_only_what_is_wrong_with_the_fixtures_is_called_a_problem():
    wrong = {w.root.parent.name: [p.expected for p in seen(w).problems.values()] for w in ALL}

    assert {name: told for name, told in wrong.items() if told} == {
        name: ["whole rows"] for name in wrong if "handle-key-only" in name
    }


# -- what is wrong is named --------------------------------------------------------------------------------------------


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    return Path(shutil.copy(fixture("canal-json-tidb") / "messages.jsonl", tmp_path))


def test_a_capture_that_is_cut_counts_up_to_there_and_says_where(capture: Path):
    lines = capture.read_bytes().splitlines(keepends=True)
    capture.write_bytes(b"".join(lines[:100]) + lines[100][:40])

    found = inspected(capture)

    assert found.messages == 100
    assert [p.where for p in found.problems.values()] == [f"{capture}:101"]


def test_a_binary_capture_that_is_cut_says_where(tmp_path: Path):
    body = b'{"isDdl": false, "type": "TIDB_WATERMARK", "_tidb": {"watermarkTs": 459802241048510466}}'
    record = (5).to_bytes(8, "big") + b"\xff\xff\xff\xff" + len(body).to_bytes(4, "big") + body
    file = tmp_path / "topic-0.bin"
    file.write_bytes(record * 3 + record[:50])

    found = inspected(tmp_path)

    assert (found.protocol, found.messages, found.watermarks) == ("canal-json", 3, 3)
    assert [p.where for p in found.problems.values()] == [f"{file}: record 3"]


def test_offsets_that_are_missing_or_twice_are_told(capture: Path):
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


def test_a_message_of_somebody_else_is_a_problem_with_its_place(capture: Path):
    line = {"topic": "oracle", "partition": 9, "offset": 0, "key": None, "ts_ms": 1}
    odd = b64encode(b"hello").decode()
    simple = b64encode(b'{"version":1,"type":"WATERMARK","commitTs":5,"buildTs":1}').decode()
    with capture.open("a") as file:
        file.write(
            json.dumps({**line, "value": odd}) + "\n" + json.dumps({**line, "offset": 1, "value": simple}) + "\n"
        )

    found = inspected(capture)

    told = {(p.where, p.found) for p in found.problems.values()}
    assert told == {("oracle[9]@0", "one that no decoder reads"), ("oracle[9]@1", "one of simple")}


def test_a_stream_of_nobody_is_an_error_in_four_parts(tmp_path: Path):
    line = {"topic": "t", "partition": 0, "offset": 0, "key": None, "ts_ms": 1, "value": b64encode(b"secret").decode()}
    (tmp_path / "messages.jsonl").write_text(json.dumps(line) + "\n")

    with pytest.raises(SourceError) as error:
        inspected(tmp_path)

    assert "messages of a protocol that TiCDC writes" in str(error.value)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("name", ["messages.jsonl", "topic-0.bin"])
def test_an_empty_capture_is_an_error(tmp_path: Path, name: str):
    (tmp_path / name).write_bytes(b"")

    with pytest.raises(SourceError, match="not one message"):
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
    assert found.counts.rows == found.messages
    assert {table.schema for table in found.tables.values()} == {""}
    assert [p.expected for p in found.problems.values()] == ["the registered schemas of the Avro protocol"]


def test_a_schema_that_the_registry_lacks_is_a_problem(tmp_path: Path):
    shutil.copy(fixture("avro-ext") / "messages.jsonl", tmp_path)
    schemas = json.loads((fixture("avro-ext") / "registry.json").read_text())
    (tmp_path / "registry.json").write_text(json.dumps(schemas[1:]))

    found = inspected(tmp_path)

    assert any(p.found == f"schema id {schemas[0]['id']}, which is not" for p in found.problems.values())


def test_claims_whose_files_are_not_there_are_told(tmp_path: Path):
    for workload in workloads("open-claim-check", "seed1"):
        shutil.copy(place(workload), tmp_path)
        found = inspected(tmp_path)

        assert [p.expected for p in found.problems.values()] == ["the file of a large message"]
        assert next(iter(found.problems.values())).count > 1


@pytest.mark.parametrize("name", ["x" * 5_000, "a\0b", "..", "."])
def test_a_claim_of_an_impossible_name_is_a_problem(tmp_path: Path, name: str):
    body = {"isDdl": False, "type": "INSERT", "database": "s", "table": "t", "es": 1, "data": [{"a": "1"}]}
    told = json.dumps({**body, "_tidb": {"commitTs": 5, "claimCheckLocation": f"file:///claims/{name}"}}).encode()
    line = {"topic": "t", "partition": 0, "offset": 0, "key": None, "ts_ms": 0, "value": b64encode(told).decode()}
    (tmp_path / "messages.jsonl").write_text(json.dumps(line) + "\n")
    (tmp_path / "claim-check").mkdir()

    assert len(inspected(tmp_path).problems) == 1


def test_what_is_neither_file_nor_folder_is_an_error(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(SourceError, match="a file or folder that can be read"):
        inspected(tmp_path / "pipe")


def test_rows_whose_schema_never_comes_are_told(tmp_path: Path):
    lines = (fixture("simple-json") / "messages.jsonl").read_text().splitlines(keepends=True)
    without = [line for line in lines if b'"tableSchema"' not in b64decode(json.loads(line)["value"])]
    (tmp_path / "messages.jsonl").write_text("".join(without))

    found = inspected(tmp_path)

    assert any("the schema of " in p.expected for p in found.problems.values())


# -- storage -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def bucket(tmp_path: Path) -> Path:
    return Path(shutil.copytree(fixture("storage-csv") / "data", tmp_path / "bucket"))


def data_files(bucket: Path) -> list[Path]:
    return sorted(bucket.rglob("CDC*.csv"))


def test_a_file_that_the_index_names_and_that_is_missing_is_told(bucket: Path):
    last = bucket / "shop/users"
    file = max(last.rglob("CDC*.csv"))
    file.unlink()

    found = inspected(bucket)

    assert [(p.expected, p.found) for p in found.problems.values()] == [
        ("the file that the index names", "no such file")
    ]
    assert str(file) in next(iter(found.problems.values())).where
    assert ("App_DB", "counters") in found.tables


def test_an_empty_file_and_a_hole_in_the_numbers_are_told(bucket: Path):
    empty, hole = (max(bucket.glob(f"{table}/*/*/CDC*1.csv")) for table in ("App_DB/counters", "shop/users"))
    empty.write_bytes(b"")
    hole.unlink()

    found = {p.found for p in inspected(bucket).problems.values()}

    assert found == {"an empty file", "no such file"}


def test_missing_metadata_is_told_and_the_rest_is_counted(bucket: Path):
    whole = inspected(bucket).counts
    (bucket / "metadata").unlink()

    found = inspected(bucket)

    assert [p.expected for p in found.problems.values()] == ["the checkpoint's file"]
    assert found.counts == whole
    assert found.watermark is None


def test_a_file_that_is_cut_says_at_which_record(bucket: Path):
    file = max(data_files(bucket), key=lambda path: path.stat().st_size)
    file.write_bytes(file.read_bytes()[:-5])

    told = list(inspected(bucket).problems.values())

    assert len(told) == 1
    assert told[0].found == "the end of the file inside it"
    assert told[0].where.startswith(f"{file}, record ")


def test_the_folder_above_a_root_is_an_error_that_names_the_root(bucket: Path):
    with pytest.raises(SourceError, match=f"Name {bucket} instead"):
        inspected(bucket.parent)


def test_foreign_files_do_not_hide_a_table(bucket: Path):
    (bucket / "shop" / "README.txt").write_text("mine")

    found = inspected(bucket)

    assert any("README.txt" in note for note in found.notes)
    assert not found.problems


# -- bounded -----------------------------------------------------------------------------------------------------------


def test_a_bound_is_kept_and_said(capture: Path, bucket: Path):
    some, few = inspected(capture, Bounds(messages=50)), inspected(bucket, Bounds(bytes_=2_000))

    assert (some.messages, some.whole) == (50, False)
    assert any("--all" in note for note in some.notes)
    assert 0 < few.files_read < few.files
    assert any("--all" in note for note in few.notes)


def test_memory_does_not_grow_with_the_capture(tmp_path: Path):
    body = b64encode(b'{"isDdl":false,"type":"TIDB_WATERMARK","_tidb":{"watermarkTs":459802241048510466}}').decode()

    def peak(messages: int) -> int:
        file = tmp_path / f"{messages}.jsonl"
        with file.open("w") as lines:
            for offset in range(messages):
                line = {"topic": "t", "partition": 0, "offset": offset, "key": None, "value": body, "ts_ms": 0}
                lines.write(json.dumps(line) + "\n")
        tracemalloc.start()
        assert inspected(file).messages == messages
        peak_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak_bytes

    peak(100)
    assert peak(20_000) < peak(2_000) + 200_000


# -- hostile -----------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.none() | st.binary(max_size=60), st.none() | st.binary(max_size=200)), max_size=8))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_hostile_messages_end_in_a_report_or_in_one_sentence(tmp_path: Path, bodies: list):
    with (tmp_path / "messages.jsonl").open("w") as file:
        for offset, (key, value) in enumerate(bodies):
            encoded = {n: None if b is None else b64encode(b).decode() for n, b in (("key", key), ("value", value))}
            file.write(json.dumps({"topic": "t", "partition": 0, "offset": offset, "ts_ms": 0, **encoded}) + "\n")

    try:
        found = inspected(tmp_path)
    except SourceError:
        return

    assert found.messages == len(bodies)


@given(st.binary(max_size=300), st.sampled_from(["messages.jsonl", "topic-0.bin"]))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_hostile_files_end_in_one_sentence(tmp_path: Path, data: bytes, name: str):
    (tmp_path / name).write_bytes(data)

    with pytest.raises(SourceError):
        inspect_source(str(tmp_path / name), EVERYTHING)


@given(st.data())
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damage_anywhere_in_a_bucket_ends_in_a_report(tmp_path: Path, data: st.DataObject):
    bucket = tmp_path / "damaged"
    shutil.rmtree(bucket, ignore_errors=True)
    shutil.copytree(fixture("storage-csv") / "data" / "shop", bucket / "shop")
    shutil.copy(fixture("storage-csv") / "data" / "metadata", bucket)
    file = data.draw(st.sampled_from(sorted(p for p in bucket.rglob("*") if p.is_file())))
    whole = file.read_bytes()
    at = data.draw(st.integers(0, len(whole)))
    file.write_bytes(whole[:at] + data.draw(st.binary(max_size=20)))

    found = inspected(bucket)

    assert found.kind == "storage"
