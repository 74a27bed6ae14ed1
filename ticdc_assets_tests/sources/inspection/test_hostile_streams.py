"""An inspection keeps its bounds and ends in a report or in one sentence, whatever the bytes are."""

from __future__ import annotations

import json
import shutil
import tracemalloc
from base64 import b64encode
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ticdc_assets.errors import SourceError
from ticdc_assets.sources.inspection import Bounds, inspect_source
from ticdc_assets_tests.sources.inspection.inspected import EVERYTHING, fixture, inspected


def test_a_bound_is_kept_and_said(capture: Path, bucket: Path):
    some, few = inspected(capture, Bounds(messages=50)), inspected(bucket, Bounds(bytes_=2_000))

    assert (some.read.messages, some.read.whole) == (50, False)
    assert any("--all" in note for note in some.notes)
    assert 0 < few.read.files_read < few.read.files
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
        assert inspected(file).read.messages == messages
        peak_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak_bytes

    peak(100)
    assert peak(20_000) < peak(2_000) + 200_000


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

    assert found.read.messages == len(bodies)


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
