"""Quarantined messages that were corrected give the tables that sound ones would have given."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from pathlib import Path

import pytest

from ticdc_assets.pipeline.replay.run import Resolution
from ticdc_assets_tests.deliveries.wires import CanalJson, OpenProtocol, Wire
from ticdc_assets_tests.fixtures import Workload, workloads
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.replay.replays import again
from ticdc_assets_tests.pipeline.small_streams import SmallStream, ids, shape


def damaged(workload: Workload, folder: Path) -> tuple[Path, dict[tuple[str, int], bytes]]:
    """A copy of a capture in which every seventh message, if of rows, cannot be decoded; those as they were."""
    lines = (workload.root / "messages.jsonl").read_text().splitlines()
    lost: dict[tuple[str, int], bytes] = {}
    lines_written = []
    for number, line in enumerate(lines):
        message = json.loads(line)
        value = b64decode(message["value"] or "")
        if number % 7 == 3 and ((of_avro(workload) and value) or _has_rows(value)):
            lost[f"{message['topic']}/{message['partition']}", message["offset"]] = value
            message["value"] = b64encode(value[: len(value) // 2]).decode()
        lines_written.append(json.dumps(message))
    folder.mkdir(parents=True)
    capture = folder / "messages.jsonl"
    capture.write_text("\n".join(lines_written) + "\n")
    return capture, lost


def of_avro(workload: Workload) -> bool:
    return "protocol=avro" in workload.variant["sink_uri"]


def _has_rows(value: bytes) -> bool:
    marks = (b'"u":{', b'"d":{', b'"type":"INSERT"', b'"type":"UPDATE"', b'"type":"DELETE"')
    return any(mark in value for mark in marks)


NAMES = ("open/seed1", "canal-json-tidb/seed1", "simple-json/seed1", "avro-ext/seed1")
MESSAGES = [w for w in workloads() if w.name in NAMES]


@pytest.mark.variants(4)
@pytest.mark.parametrize("workload", MESSAGES, ids=lambda w: w.name)
def test_corrected_messages_give_the_changelogs_that_sound_ones_would_have(workload: Workload, tmp_path: Path):
    capture, lost = damaged(workload, tmp_path / "capture")
    registry = {"file": str(workload.root / "registry.json")}
    settings = {"schema_registry": registry} if of_avro(workload) else {}
    lake = FeedLake(workload, tmp_path / "lake", capture, **settings)
    lake.publish()
    quarantined = {record.position for record in lake.lake.control.quarantined()}
    assert quarantined
    assert quarantined == lost.keys()

    report = again(lake, corrected=lost)

    assert {outcome.resolution for outcome in report.outcomes} == {Resolution.REPLAYED}, report.outcomes[0].reason
    sound = FeedLake(workload, tmp_path / "sound", **settings)
    sound.publish()
    assert lake.changes() == sound.changes()
    assert lake.lake.control.quarantined() == []
    assert again(lake).outcomes == []


@pytest.mark.parametrize("wire", [CanalJson(), OpenProtocol()], ids=["canal-json", "open"])
def test_a_table_that_only_quarantined_rows_show_is_made_by_the_replay(wire: Wire, tmp_path: Path):
    stream, sound = SmallStream(tmp_path / "bad", wire), SmallStream(tmp_path / "sound", wire)
    for made in (stream, sound):
        made.create(1, shape("a"))
        made.put(2, shape("a"), 1)
        made.put(3, shape("b"), 1)
        made.put(4, shape("b"), 2)
        made.watermark(5)
    capture = stream.capture / "messages.jsonl"
    lines = [json.loads(line) for line in capture.read_text().splitlines()]
    lost = {("feed/0", line["offset"]): b64decode(line["value"]) for line in lines[2:4]}
    for line in lines[2:4]:
        line["value"] = b64encode(b64decode(line["value"])[:-9]).decode()
    capture.write_text("".join(json.dumps(line) + "\n" for line in lines))
    lake, expected = stream.lake(), sound.lake()
    lake.publish()
    expected.publish()
    assert [name for _, name in lake.records()] == ["a"]

    report = again(lake, corrected=lost)

    assert {outcome.resolution for outcome in report.outcomes} == {Resolution.REPLAYED}, report.outcomes[0].reason
    assert lake.changes() == expected.changes()
    watermarks = {name: record.watermark for name, record in expected.records().items()}
    assert {name: record.watermark for name, record in lake.records().items()} == watermarks
    stream.put(6, shape("b"), 3)
    stream.watermark(7)
    lake.publish()
    assert ids(lake) == {"a": [1], "b": [1, 2, 3]}
