"""Which limitations a changefeed's own settings give its stream."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ticdc_assets_tests.config.config_file import loaded
from ticdc_assets_tests.pipeline.stream.conditions import gaps_of

HANDLE_KEYS = {"kafka-config": {"large-message-handle": {"large-message-handle-option": "handle-key-only"}}}
SELECTORS = {"column-selectors": [{"matcher": ["s.*"], "columns": ["id"]}]}
DELETES = {"delete-only-output-handle-key-columns": True}


def gaps(folder: Path, uri: str, sink: dict[str, Any], **keys: Any) -> set[str]:
    other = {"sink_uri": "kafka://host/other?protocol=simple", "source": {"capture": "other"}}
    feed = {"sink_uri": uri, "config": {"sink": sink}, "time_zone": "UTC", **keys}
    return {
        gap.id for gap in gaps_of(loaded(folder, {"changefeeds": {"feed": feed, "other": other}}).changefeed("feed"))
    }


CSV, CANAL, DEBEZIUM = "s3://b/p?protocol=csv", "kafka://h/t?protocol=canal-json", "kafka://h/t?protocol=debezium"
AVRO = "kafka://h/t?protocol=avro"
EXTENSION = "&enable-tidb-extension=true"
CASES: list[tuple[str, dict[str, Any], dict[str, Any], set[str], set[str]]] = [
    (CSV, {"csv": {"include-commit-ts": True}}, {}, {"csv.commit-ts"}, set()),
    (CSV, {"csv": {"output-old-value": True}}, {}, {"csv.old-values", "csv.updated-row"}, set()),
    (CSV, {"csv": {"quote": "", "null": ""}}, {}, set(), {"csv.null"}),
    (CSV, {"csv": {"null": ""}}, {}, set(), set()),
    (CSV, {"csv": {"quote": ""}}, {}, set(), set()),
    (CANAL, {"content-compatible": True}, {}, {"canal-json.types"}, set()),
    (CANAL, SELECTORS, {}, set(), {"canal-json.left-out"}),
    (CANAL, DELETES, {}, set(), {"canal-json.deleted-row"}),
    (CANAL, {}, {"time_zone": "Europe/Berlin"}, set(), {"canal-json.repeated-hour"}),
    (f"{CANAL}{EXTENSION}", HANDLE_KEYS, {}, set(), {"canal-json.large-row", "canal-json.large-deleted-row"}),
    (
        f"{CANAL}{EXTENSION}", HANDLE_KEYS, {"upstream": {"host": "db", "user": "u"}},
        set(), {"canal-json.large-deleted-row"},
    ),
    (DEBEZIUM, {"debezium": {"decimal-handling-mode": "string"}}, {}, {"debezium.decimal"}, set()),
    (DEBEZIUM, {"debezium": {"output-old-value": False}}, {}, set(), {"debezium.old-values"}),
]  # fmt: skip


@pytest.mark.parametrize(("uri", "sink", "keys", "gone", "more"), CASES)
def test_a_setting_of_the_changefeed_decides_what_its_stream_lacks(
    tmp_path: Path, uri: str, sink: dict[str, Any], keys: dict[str, Any], gone: set[str], more: set[str]
):
    plain = gaps(tmp_path, uri, {})

    found = gaps(tmp_path, uri, sink, **keys)

    assert (plain - found, found - plain) == (gone, more)


def test_settings_of_a_protocol_count_for_no_other_protocol(tmp_path: Path):
    assert "csv.commit-ts" in gaps(tmp_path, CSV, {})
    assert "debezium.decimal" in gaps(tmp_path, DEBEZIUM, {})
    assert {"canal-json.commit-ts", "canal-json.watermark"} <= gaps(tmp_path, CANAL, {})


def test_files_and_messages_of_one_protocol_lack_different_things(tmp_path: Path):
    files, messages = (
        gaps(tmp_path, f"s3://b/p?protocol=canal-json{EXTENSION}", {}),
        gaps(tmp_path, CANAL + EXTENSION, {}),
    )

    assert (files - messages, messages - files) == (
        {"canal-json.virtual"},
        {"canal-json.types", "canal-json.partition-id"},
    )


@pytest.mark.parametrize(
    ("more", "has_statements"),
    [("", False), (EXTENSION, False), (f"{EXTENSION}&avro-enable-watermark=true", True)],
)
def test_avro_has_statements_only_with_watermarks_or_from_another_changefeed(
    tmp_path: Path, more: str, has_statements: bool
):
    registry = {"schema_registry": {"url": "http://registry"}}
    stated = {"avro.statements", "avro.names", "avro.types"}

    assert stated.isdisjoint(gaps(tmp_path, AVRO + more, {}, **registry)) is has_statements
    assert stated.isdisjoint(gaps(tmp_path, AVRO + EXTENSION, {}, **registry, ddl_from="other"))
