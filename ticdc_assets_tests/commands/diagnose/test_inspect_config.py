"""`ticdc-assets inspect changefeeds.yaml`: what the config lacks, compared with what is in the source."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from ticdc_assets.cli import main
from ticdc_assets_tests.fixtures import CORPUS, FIXTURES
from ticdc_assets_tests.pipeline.small_feeds import Sink
from ticdc_assets_tests.sources.storage.bucket import Bucket

ROOT = FIXTURES or CORPUS / "fixtures"
T = ("s", "t")
HEADER = b"ticdc-meta$operation,ticdc-meta$table,ticdc-meta$schema,ticdc-meta$commit-ts,id,name\r\n"
TSO = 459802240407830531


def written(folder: Path, source: dict[str, str], sink: dict[str, Any], protocol: str = "csv", **config: Any) -> Path:
    uri = f"file:///x?protocol={protocol}" if "storage" in source else f"kafka://h/t?protocol={protocol}"
    feed = {"sink_uri": uri, "source": source, "config": {"sink": sink, **config}}
    path = folder / "changefeeds.yaml"
    path.write_text(yaml.safe_dump({"changefeeds": {"shop": feed}}))
    return path


def csv_bucket(folder: Path) -> Bucket:
    """One CSV file with a header line and a commit_ts in each record."""
    sink = Sink(folder, checkpoint=TSO + 10)
    sink.table(T)
    sink.file(T, 1, [HEADER, sink.line(T, "I", TSO, 1, "one"), sink.line(T, "I", TSO, 2, "two")])
    return sink.bucket


def inspected(capfd: Any, config: Path) -> tuple[int, str]:
    code = main(["inspect", str(config)])
    return code, capfd.readouterr().out


def test_what_csv_files_show_and_the_config_lacks_is_named(tmp_path: Path, capfd: Any):
    csv_bucket(tmp_path / "bucket")
    csv = {"delimiter": "|", "output-old-value": True}
    config = written(tmp_path, {"storage": str(tmp_path / "bucket")}, {"csv": csv})

    code, text = inspected(capfd, config)

    assert code == 1
    assert "shop: 5 things to correct:" in text
    assert (
        "- The files have a header line; the configuration has csv.output-field-header = false. "
        "Set `sink.csv.output-field-header = true` in the changefeed's configuration here." in text
    )
    for line in (
        "Set `sink.date-separator = none`", "Set `sink.csv.delimiter = ','`", "Set `sink.csv.include-commit-ts = true`",
        "Set `sink.csv.output-old-value = false`",
    ):  # fmt: skip
        assert line in text


def test_a_config_that_has_all_of_it_is_well(tmp_path: Path, capfd: Any):
    csv_bucket(tmp_path / "bucket")
    sink = {"date-separator": "none", "csv": {"include-commit-ts": True, "output-field-header": True}}
    config = written(tmp_path, {"storage": str(tmp_path / "bucket")}, sink)

    assert inspected(capfd, config) == (0, "shop: its configuration has what its source shows.\n")


def test_another_text_for_null_is_named(tmp_path: Path, capfd: Any):
    sink = Sink(tmp_path / "bucket", checkpoint=TSO + 10)
    sink.table(T)
    sink.file(T, 1, [sink.line(T, "I", TSO, 1, "one"), sink.line(T, "I", TSO, 2, None).replace(b"\\N", b"")])
    csv = {"date-separator": "none", "csv": {"include-commit-ts": True}}
    config = written(tmp_path, {"storage": str(tmp_path / "bucket")}, csv)

    code, text = inspected(capfd, config)

    assert code == 1
    assert "NULL is written so; the configuration has csv.null = '\\N'. Set `sink.csv.null = ''`" in text


def test_for_programs_each_difference_has_its_parts(tmp_path: Path, capfd: Any):
    csv_bucket(tmp_path / "bucket")
    sink = {"date-separator": "none", "csv": {"include-commit-ts": True}}
    config = written(tmp_path, {"storage": str(tmp_path / "bucket")}, sink)

    assert main(["inspect", "--json", str(config)]) == 1

    [shop] = json.loads(capfd.readouterr().out)
    header = {"option": "csv.output-field-header", "path": "sink.csv.output-field-header"}
    assert shop["changefeed"] == "shop"
    assert shop["missing"] == [{**header, "seen": "true", "configured": "false"}]


def test_another_protocol_is_the_only_thing_named(tmp_path: Path, capfd: Any):
    csv_bucket(tmp_path / "bucket")
    config = written(tmp_path, {"storage": str(tmp_path / "bucket")}, {}, protocol="canal-json")

    code, text = inspected(capfd, config)

    assert code == 1
    assert "shop: 1 thing to correct:" in text
    assert "Set `sink.protocol = csv`" in text


def test_folders_by_table_id_are_named(tmp_path: Path, capfd: Any):
    bucket = Bucket(tmp_path / "bucket", checkpoint=TSO + 10)
    bucket.schema("s", "t", 100, folder="112")
    bucket.files("112/100", 1)
    config = written(tmp_path, {"storage": str(tmp_path / "bucket")}, {"date-separator": "none"})

    assert "Set `sink.cloud-storage-config.use-table-id-as-path = true`" in inspected(capfd, config)[1]


@pytest.mark.parametrize(
    ("variant", "protocol", "lines"),
    [
        ("canal-json-tidb", "canal-json", ["codec-config.enable-tidb-extension = true"]),
        ("canal-json-tidb-handle-key-only", "canal-json", ["large-message-handle-option = handle-key-only"]),
        ("open", "open-protocol", []),
    ],
)
def test_what_messages_show_is_compared_too(variant: str, protocol: str, lines: list[str], tmp_path: Path, capfd: Any):
    config = written(tmp_path, {"capture": str(ROOT / variant / "seed1" / "messages.jsonl")}, {}, protocol)

    text = inspected(capfd, config)[1]

    assert [line for line in lines if line not in text] == []
    assert ("has what its source shows" in text) == (not lines)
