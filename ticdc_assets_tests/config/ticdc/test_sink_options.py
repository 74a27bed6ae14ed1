"""Options of a changefeed, in TiCDC's own keys, are read as TiCDC reads them, or refused with their place."""

from __future__ import annotations

from operator import attrgetter

import pytest

from ticdc_assets.config import CsvSinkOptions, DateSeparator, Protocol, read_sink
from ticdc_assets.errors import ConfigError
from ticdc_assets.protocols.formats.compression import Compression
from ticdc_assets_tests.fixtures import needs_fixtures, workloads


@needs_fixtures
@pytest.mark.parametrize("workload", workloads(), ids=lambda w: w.name)
def test_every_real_changefeed_is_understood_without_warnings(workload):
    uri, config = workload.variant["sink_uri"], workload.variant["config"]

    options, warnings = read_sink(uri, config)

    assert warnings == ()
    assert f"protocol={options.protocol}" in uri
    assert options.content.enable_tidb_extension == ("enable-tidb-extension=true" in uri)
    assert (options.simple.encoding_format == "avro") == ("encoding-format=avro" in uri)
    assert options.content.only_output_updated_columns == (
        "only-output-updated-columns=true" in uri or "content-compatible=true" in uri
    )
    sink = config["sink"]
    assert options.layout.date_separator.value == sink.get("date-separator", "day")
    assert options.csv.terminator == sink.get("terminator", "\r\n")
    assert options.open.output_old_value == sink.get("open", {}).get("output-old-value", True)
    assert (options.content.integrity_check_level != "none") == ("integrity" in config)
    for name, value in sink.get("csv", {}).items():
        assert getattr(options.csv, name.replace("-", "_")) == value
    in_storage = sink.get("cloud-storage-config", {})
    assert options.layout.use_table_id_as_path == in_storage.get("use-table-id-as-path", False)
    large = sink.get("kafka-config", {}).get("large-message-handle", {})
    assert options.large_message.option.value == large.get("large-message-handle-option", "none")
    assert options.large_message.compression.value == (large.get("large-message-handle-compression") or "none")
    assert options.large_message.claim_check_raw_value == large.get("claim-check-raw-value", False)
    assert (options.large_message.claim_check is not None) == bool(large.get("claim-check-storage-uri"))
    assert list(options.dispatch.topics) == [rule["topic"] for rule in sink.get("dispatchers", []) if rule["topic"]]


def test_options_have_ticdc_defaults():
    options, _ = read_sink("kafka://h:9092/t?protocol=open-protocol", {})

    assert options.csv == CsvSinkOptions(",", '"', "\\N", False, "base64", False, False, False)
    assert (options.layout.date_separator, options.layout.file_index_width) == (DateSeparator.DAY, 20)
    assert (options.layout.enable_partition_separator, options.csv.terminator) == (True, "\r\n")
    assert (options.avro.decimal_handling_mode, options.avro.bigint_unsigned_handling_mode) == ("precise", "long")
    assert (options.open.output_old_value, options.case_sensitive, options.simple.encoding_format) == (
        True,
        False,
        "json",
    )


@pytest.mark.parametrize(
    ("uri", "config", "field", "value"),
    [
        ("kafka://h/t?protocol=open", {}, "protocol", Protocol.OPEN),
        ("kafka://h/t?protocol=default", {}, "protocol", Protocol.OPEN),
        ("kafka://h/t?protocol=Canal-JSON", {}, "protocol", Protocol.CANAL_JSON),
        ("kafka://h/t?protocol=flat-avro", {}, "protocol", Protocol.AVRO),
        ("kafka://h/t", {"sink": {"protocol": "simple"}}, "protocol", Protocol.SIMPLE),
        ("kafka://h/t?protocol=simple", {"sink": {"protocol": "avro"}}, "protocol", Protocol.SIMPLE),
        (
            "kafka://h/t?protocol=canal-json",
            {"sink": {"kafka-config": {"codec-config": {"enable-tidb-extension": True}}}},
            "content.enable_tidb_extension",
            True,
        ),
        (
            "kafka://h/t?protocol=canal-json&enable-tidb-extension=false",
            {"sink": {"kafka-config": {"codec-config": {"enable-tidb-extension": True}}}},
            "content.enable_tidb_extension",
            False,
        ),
        ("kafka://h/t?protocol=canal-json&enable-tidb-extension=1", {}, "content.enable_tidb_extension", True),
        ("kafka://h/t?protocol=canal-json&enable-tidb-extension=", {}, "content.enable_tidb_extension", False),
        ("kafka://h/t?protocol=canal-json&content-compatible=true", {}, "content.only_output_updated_columns", True),
        ("kafka://h/t?protocol=open&content-compatible=true", {}, "content.only_output_updated_columns", False),
        ("file:///x?protocol=csv", {"sink": {"file-index-digit": 6}}, "layout.file_index_width", 6),
        ("file:///x?protocol=csv", {"sink": {"file_index_width": 7}}, "layout.file_index_width", 7),
        ("file:///x?protocol=csv", {"sink": {"file-index-digit": 5}}, "layout.file_index_width", 20),
        ("file:///x?protocol=csv", {"sink": {"file-index-digit": 21}}, "layout.file_index_width", 20),
        ("file:///x?protocol=csv", {"sink": {"terminator": ""}}, "csv.terminator", "\r\n"),
        ("file:///x?protocol=csv", {"sink": {"date-separator": ""}}, "layout.date_separator", DateSeparator.NONE),
        ("file:///x?protocol=csv", {"sink": {"date_separator": "Month"}}, "layout.date_separator", DateSeparator.MONTH),
        ("file:///x?protocol=csv", {"case_sensitive": True}, "case_sensitive", True),
        (
            "kafka://h/t?protocol=open",
            {"sink": {"dispatchers": [{"matcher": ["a.*"], "dispatcher": "ts"}, {"topic": "t_{schema}"}]}},
            "dispatch.topics",
            ("t_{schema}",),
        ),
        ("s3://b/p?protocol=csv&use-table-id-as-path=true", {}, "layout.use_table_id_as_path", True),
        (
            "file:///x?protocol=csv",
            {"scheduler": {"enable-table-across-nodes": True}},
            "layout.table_across_nodes",
            True,
        ),
    ],
)
def test_an_option_is_read_as_ticdc_reads_it(uri, config, field, value):
    options, _ = read_sink(uri, config)

    assert value == attrgetter(field)(options)


@pytest.mark.parametrize(
    ("sink", "place"),
    [
        ({"csv": {"include-commit-ts": "true"}}, "include-commit-ts"),
        ({"csv": {"delimiter": ""}}, "delimiter"),
        ({"csv": {"delimiter": "|+|+"}}, "delimiter"),
        ({"csv": {"delimiter": "\n"}}, "delimiter"),
        ({"csv": {"delimiter": 3}}, "delimiter"),
        ({"csv": {"quote": "''"}}, "quote"),
        ({"csv": {"quote": ","}}, "quote"),
        ({"csv": {"binary-encoding-method": "base46"}}, "binary-encoding-method"),
        ({"csv": "x"}, "csv"),
        ({"date-separator": "week"}, "date-separator"),
        ({"date-separator": "day", "date_separator": "day"}, "date-separator"),
        ({"file-index-digit": "6"}, "file-index-digit"),
        ({"dispatchers": {"matcher": []}}, "dispatchers"),
        ({"dispatchers": [{"topic": 3}]}, "topic"),
        ({"kafka-config": {"large-message-handle": {"large-message-handle-option": "claimcheck"}}}, "option"),
        ({"kafka-config": {"large-message-handle": {"large-message-handle-compression": "zstd"}}}, "compression"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_with_its_place(sink, place):
    with pytest.raises(ConfigError) as caught:
        read_sink("s3://b/p?protocol=csv", {"sink": sink})

    assert place in caught.value.where
    assert caught.value.advice


@pytest.mark.parametrize(
    ("uri", "advice"),
    [
        ("kafka://h/t?protocol=canal-jsn", "canal-json"),
        ("kafka://h/t?protocol=maxwell", "open-protocol"),
        ("kafka://h/t", "protocol"),
        ("kafka://h/t?protocol=canal-json&enable-tidb-extension=yes", "true or false"),
        ("h:9092/t?protocol=csv", "kafka://"),
        ("", "kafka://"),
    ],
)
def test_a_sink_uri_that_cannot_be_meant_is_refused(uri, advice):
    with pytest.raises(ConfigError) as caught:
        read_sink(uri, {})

    assert advice in str(caught.value)


@pytest.mark.parametrize(
    ("uri", "commit_ts", "watermark"),
    [
        ("kafka://h/t?protocol=open", True, True),
        ("kafka://h/t?protocol=simple", True, True),
        ("kafka://h/t?protocol=canal-json", False, False),
        ("kafka://h/t?protocol=canal-json&enable-tidb-extension=true", True, True),
        ("kafka://h/t?protocol=avro&enable-tidb-extension=true", True, False),
        ("kafka://h/t?protocol=avro&enable-tidb-extension=true&avro-enable-watermark=true", True, True),
        ("kafka://h/t?protocol=debezium", True, False),
        ("file:///x?protocol=csv", False, True),
        ("file:///x?protocol=canal-json", False, True),
    ],
)
def test_the_options_tell_what_a_stream_can_promise(uri, commit_ts, watermark):
    options, _ = read_sink(uri, {})

    assert (commit_ts, watermark) == (options.has_commit_ts, options.has_watermark)


def test_compression_and_claim_check_are_taken_apart():
    large = {
        "large-message-handle-option": "claim-check",
        "large-message-handle-compression": "snappy",
        "claim-check-storage-uri": "s3://claims/x/?secret-access-key=hunter2&region=eu&protocol=1",
        "claim-check-raw-value": True,
    }
    options, _ = read_sink("kafka://h/t?protocol=open", {"sink": {"kafka-config": {"large-message-handle": large}}})

    place = options.large_message.claim_check
    assert place is not None
    assert place.location == "s3://claims/x"
    assert dict(place.options) == {"secret-access-key": "hunter2", "region": "eu"}
    assert options.large_message.compression is Compression.SNAPPY
    assert "hunter2" not in repr(options)


def dispatched(**rule: object) -> dict[str, object]:
    return {"sink": {"dispatchers": [{"matcher": ["*.*"], **rule}]}}


GLUE = {"kafka-config": {"glue-schema-registry-config": {"registry-name": "r", "region": "eu-west-1"}}}
SELECTED = {"column-selectors": [{"matcher": ["s.*"], "columns": ["*", "!secret"]}]}
ROUTED = {"dispatchers": [{"matcher": ["*.*"], "target-table": "{table}_new"}]}
RAW = {"sink": {"kafka-config": {"output-raw-change-event": True}}}
OLD_VALUES = {"output-old-value": True}
RAW_FILES = {"sink": {"cloud-storage-config": {"output_raw_change_event": True}}}


@pytest.mark.parametrize(
    ("uri", "config", "place"),
    [
        ("kafka://h/t?protocol=simple", {"enable-active-active": True}, "enable-active-active"),
        ("kafka://h/t?protocol=avro", RAW, "output-raw-change-event"),
        ("kafka://h/t?protocol=open", {"sink": {**RAW["sink"], "open": {"output-old-value": False}}}, "output-raw"),
        ("kafka://h/t?protocol=debezium", {"sink": {**RAW["sink"], "debezium": {"output-old-value": False}}}, "raw"),
        ("file:///x?protocol=csv", RAW_FILES, "output-raw-change-event"),
        ("file:///x?protocol=csv&output-raw-change-event=true", {}, "output-raw-change-event"),
        ("kafka://h/t?protocol=canal-json", RAW, "output-raw-change-event"),
        ("file:///x?protocol=canal-json", RAW_FILES, "output-raw-change-event"),
        ("file:///x?protocol=csv", {"sink": {**RAW_FILES["sink"], "csv": OLD_VALUES}}, "output-raw-change-event"),
        ("kafka://h/t?protocol=avro&avro-include-before-value=true&enable-tidb-extension=true", RAW, "output-raw"),
        ("kafka://h/t?protocol=debezium-avro", {}, "protocol"),
        ("kafka://h/t?protocol=avro", {"sink": {**GLUE, "schema-registry": "http://r:8081"}}, "glue-schema-registry"),
        ("kafka://h/t?protocol=avro&avro-include-before-value=true", {}, "avro-include-before-value"),
        ("kafka://h/t?protocol=canal-json", dispatched(partition="ts"), "dispatchers.partition"),
        ("kafka://h/t?protocol=canal-json", dispatched(dispatcher="columns", columns=["a"]), "dispatchers.partition"),
        ("kafka://h/t?protocol=avro&enable-tidb-extension=1", dispatched(partition="ts"), "dispatchers.partition"),
        ("kafka://h/t?protocol=avro", dispatched(partition="index-value", index="u"), "dispatchers.partition"),
        (
            "kafka://h/t?protocol=simple",
            {"sink": {**dispatched(**{"target-table": "x"})["sink"], **SELECTED}},
            "column",
        ),
        ("file:///x?protocol=csv", {"sink": {"csv": {"null": "0"}}}, "csv null"),
        ("file:///x?protocol=csv", {"sink": {"terminator": "$", "csv": {"quote": ""}}}, "csv terminator"),
        ("file:///x?protocol=canal-json", {"sink": {"terminator": "$"}}, "sink.terminator"),
        ("file:///x?protocol=canal-json", {"sink": {"terminator": ";\n"}}, "sink.terminator"),
        ("kafka://h/t?protocol=simple", {"sink": {"column-selectors": [{"matcher": ["s"]}]}}, "filter rule 's'"),
        ("kafka://h/t?protocol=simple", {"sink": {"column-selectors": [{"columns": "id"}]}}, "selectors.columns"),
    ],
)
def test_an_option_under_which_a_stream_cannot_be_read_exactly_is_refused(uri, config, place):
    with pytest.raises(ConfigError) as caught:
        read_sink(uri, config)

    assert place in caught.value.where


@pytest.mark.parametrize(
    ("uri", "config"),
    [
        ("kafka://h/t?protocol=simple", RAW),
        ("kafka://h/t?protocol=canal-json&enable-tidb-extension=true", RAW),
        ("kafka://h/t?protocol=open", RAW),
        ("file:///x?protocol=csv", {"sink": {**RAW_FILES["sink"], "csv": {**OLD_VALUES, "include-commit-ts": True}}}),
        ("kafka://h/t?protocol=avro", {"enable-active-active": False}),
        ("kafka://h/t?protocol=avro&avro-include-before-value=true&enable-tidb-extension=true", {}),
        ("kafka://h/t?protocol=canal-json", {"sink": GLUE}),
        ("kafka://h/t?protocol=canal-json", dispatched(partition="index-value")),
        ("kafka://h/t?protocol=canal-json&enable-tidb-extension=true", dispatched(partition="ts")),
        ("kafka://h/t?protocol=open", dispatched(partition="index-value", index="u")),
        ("s3://b/p?protocol=csv", dispatched(partition="ts")),
        ("s3://b/p?protocol=csv", {"sink": {"terminator": "$"}}),
        ("s3://b/p?protocol=csv", {"sink": {"csv": {"null": ""}}}),
        ("s3://b/p?protocol=csv", {"sink": {"csv": {"quote": ""}}}),
        ("s3://b/p?protocol=canal-json", {"sink": {"terminator": "\n"}}),
        ("kafka://h/t?protocol=canal-json", {"sink": {"terminator": "$"}}),
    ],
)
def test_an_option_that_loses_nothing_gives_no_warning(uri, config):
    assert read_sink(uri, config)[1] == ()


@pytest.mark.parametrize(
    ("config", "warned"),
    [
        ({"sink": {"column_selectors": [{"matcher": ["a.b"], "columns": ["id"]}]}}, "is NULL in the tables"),
        ({"filter": {"event-filters": [{"matcher": ["a.b"], "ignore-event": ["insert"]}]}}, "is missing in the tables"),
        ({"filter": {"ignore_txn_start_ts": [459802261460090884]}}, "is missing in the tables"),
        ({"bdr-mode": True}, "came to this cluster from another one"),
        ({"sink": {"kafka-config": {"required-acks": 1}}}, "required-acks=1"),
        ({"sink": {"column-selectors": []}, "filter": {"event-filters": []}}, ""),
        ({"bdr-mode": False, "sink": {"kafka-config": {"required-acks": -1}}}, ""),
    ],
)
def test_rows_that_a_changefeed_leaves_out_are_named_in_a_warning(config, warned):
    _, warnings = read_sink("kafka://h/t?protocol=open-protocol", config)

    assert warned in " ".join(warnings)
    assert bool(warned) == bool(warnings)


@pytest.mark.parametrize("null", ["", "NULL"])
def test_a_text_that_stands_in_files_as_null_does_is_named_in_a_warning(null):
    _, warnings = read_sink("s3://b/p?protocol=csv", {"sink": {"csv": {"quote": "", "null": null}}})

    assert f"csv.null={null!r} without a quote" in " ".join(warnings)
