"""A config tells all of its faults at once, each with its place and advice; what it accepts is complete and frozen."""

from __future__ import annotations

import dataclasses
import json
import pickle
import pprint
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ticdc_assets.config import (
    CaptureSource,
    Compression,
    Config,
    CsvOptions,
    DateSeparator,
    DispatchRule,
    KafkaSource,
    LargeMessageOption,
    OnBadMessage,
    OnDrop,
    PartitionField,
    Protocol,
    Secret,
    Settings,
    StorageSource,
    Target,
    Upstream,
    UpstreamTls,
    ZeroDates,
    load,
    read_sink,
    redacted,
)
from ticdc_assets.errors import ConfigError
from ticdc_assets_tests.fixtures import needs_fixtures, workloads

MINIMAL = """
changefeeds:
  shop:
    sink_uri: "s3://bucket/prefix?protocol=canal-json&enable-tidb-extension=true"
"""


def written(folder: Path, text: str | dict[str, Any], name: str = "changefeeds.yaml") -> Path:
    path = folder / name
    path.write_text(text if isinstance(text, str) else yaml.safe_dump(text), encoding="utf-8")
    return path


def loaded(folder: Path, text: str | dict[str, Any], **environ: str) -> Config:
    return load(written(folder, text), environ)


def with_feed(**keys: Any) -> dict[str, Any]:
    return {"changefeeds": {"shop": {"sink_uri": "s3://bucket/prefix?protocol=canal-json", **keys}}}


def feed(folder: Path, environ: dict[str, str] | None = None, **keys: Any):
    return loaded(folder, with_feed(**keys), **(environ or {})).changefeed("shop")


def refused(folder: Path, text: str | dict[str, Any], **environ: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        loaded(folder, text, **environ)
    return caught.value


# ---- the whole file


def test_a_minimal_config_has_all_defaults(tmp_path):
    config = loaded(tmp_path, MINIMAL)

    assert (config.catalog.name, config.catalog.type) == ("lake", "sql")
    assert config.catalog.uri == f"sqlite:///{tmp_path}/lake/catalog.db"
    assert config.catalog.warehouse == f"{tmp_path}/lake/warehouse"
    assert (config.spark.master, config.spark.remote, dict(config.spark.conf)) == ("local[*]", None, {})
    shop = config.changefeed("shop")
    assert isinstance(shop.source, StorageSource)
    assert shop.source.storage.location == "s3://bucket/prefix"
    assert (shop.time_zone, shop.ddl_from, shop.schema_files, shop.skip_files) == ("UTC", None, (), ())
    assert (shop.zero_dates, shop.on_bad_message, shop.on_drop) == (
        ZeroDates.NULL,
        OnBadMessage.QUARANTINE,
        OnDrop.KEEP,
    )
    assert (shop.format_version, shop.target, shop.schema_registry, shop.claim_check) == (3, Target(), None, None)
    assert shop.upstream is None
    assert shop.tables.matches("any", "table")
    assert shop.key_of("any", "table") is None
    assert shop.partition_of("any", "table") == ()
    assert shop.warnings == ()


def test_the_example_of_the_documentation_loads(tmp_path):
    (tmp_path / "changefeed.toml").write_text('case-sensitive = true\n[sink]\ndate-separator = "none"\n')
    config = loaded(
        tmp_path,
        """
catalog:
  name: lake
  type: sql
  uri: sqlite:///lake/catalog.db
  warehouse: lake/warehouse
spark:
  master: local[*]
  conf: {}
changefeeds:
  shop:
    sink_uri: "s3://bucket/prefix?protocol=canal-json&enable-tidb-extension=true"
    config_file: changefeed.toml
    source:
      storage: s3://bucket/prefix
    claim_check: s3://bucket/claims
    time_zone: UTC
    tables: ["*.*"]
    schema_files: []
    ddl_from: null
    target:
      mirror: "{schema}.{table}"
      changelog: "{schema}__changes.{table}"
      control: "ticdc_{changefeed}"
""",
    )

    assert config.catalog.uri == f"sqlite:///{tmp_path}/lake/catalog.db"
    shop = config.changefeed("shop")
    assert shop.sink.date_separator is DateSeparator.NONE
    assert shop.sink.enable_tidb_extension
    assert shop.tables.case_sensitive
    assert shop.claim_check is not None
    assert shop.claim_check.location == "s3://bucket/claims"


def test_the_path_wins_over_the_variable_and_the_variable_over_the_sample(tmp_path):
    one = written(tmp_path, MINIMAL, "one.yaml")
    other = written(tmp_path, MINIMAL.replace("shop", "other"), "other.yaml")

    assert load(one, {"TICDC_ASSETS_CONFIG": str(other)}).path == one
    assert load(None, {"TICDC_ASSETS_CONFIG": str(other)}).path == other


def test_a_missing_file_says_how_to_name_one(tmp_path):
    with pytest.raises(ConfigError, match="--config"):
        load(tmp_path / "none.yaml", {})


def test_all_faults_are_told_at_once_with_their_lines(tmp_path):
    error = refused(
        tmp_path,
        """
catalog:
  tpye: sql
changefeeds:
  shop:
    sink_uri: "s3://b/p?protocol=canal-jsn"
    zero_date: error
    on_drop: keeep
    time_zone: Mars/Olympus
    format_version: 4
    target: {mirorr: "x"}
""",
    )

    text = str(error)
    for place, advice in [
        ("catalog.tpye (line 3)", "Did you mean type?"),
        ("changefeeds.shop.sink_uri (line 6)", "Did you mean canal-json?"),
        ("changefeeds.shop.zero_date (line 7)", "Did you mean zero_dates?"),
        ("changefeeds.shop.on_drop (line 8)", "Did you mean keep?"),
        ("changefeeds.shop.time_zone (line 9)", "Asia/Shanghai"),
        ("changefeeds.shop.format_version (line 10)", "Write 3"),
        ("changefeeds.shop.target.mirorr (line 11)", "Did you mean mirror?"),
    ]:
        line = next(line for line in text.splitlines() if place in line)
        assert advice in line
    assert "7 faults" in text


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("catalogue", "catalog"),
        ("changefeed", "changefeeds"),
        ("catalog.warehose", "warehouse"),
        ("spark.mastr", "master"),
        ("changefeeds.shop.sink_url", "sink_uri"),
        ("changefeeds.shop.config-file", "config_file"),
        ("changefeeds.shop.timezone", "time_zone"),
        ("changefeeds.shop.source.storge", "storage"),
        ("changefeeds.shop.schema_registry.fle", "file"),
        ("changefeeds.shop.upstream.hst", "host"),
        ("changefeeds.shop.target.contrl", "control"),
    ],
)
def test_a_typo_names_the_nearest_key(tmp_path, path, meant):
    values = with_feed()
    place: Any = values
    *above, last = path.split(".")
    for name in above:
        place = place.setdefault(name, {})
    place[last] = "x"

    error = refused(tmp_path, values)

    assert f"Did you mean {meant}?" in str(error)
    assert path in str(error)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("changefeeds: [", "line"),
        ("tables: *.*", "Quote texts that start with"),
        ("- a", "list"),
        ("a: 1\na: 2", "a twice"),
        ("1: a", "number"),
        ("a: !!python/object:os.system {}", "line 1"),
        ("a: \0", "YAML"),
        ("", "at least one changefeed"),
        ("changefeeds: {}", "at least one changefeed"),
        ("changefeeds: {shop: }", "sink_uri"),
        ("changefeeds: {my-feed: {sink_uri: 's3://b/p?protocol=csv'}}", "Call it my_feed."),
        ("changefeeds: {shop: 3}", "a mapping"),
    ],
)
def test_what_is_no_config_is_refused_with_its_place(tmp_path, text, found):
    assert found in str(refused(tmp_path, text))


def test_yaml_faults_do_not_quote_the_line(tmp_path):
    error = refused(tmp_path, 'changefeeds:\n  shop:\n    sink_uri: "kafka://u:hunter2@h/t\n    x: [hunter2\n')

    assert "hunter2" not in str(error)
    assert "line" in str(error)


def test_yaml_merge_keys_may_be_overridden(tmp_path):
    config = loaded(
        tmp_path,
        """
changefeeds:
  one: &one {sink_uri: "s3://b/one?protocol=csv", time_zone: Asia/Shanghai}
  two: {<<: *one, sink_uri: "s3://b/two?protocol=csv"}
""",
    )

    assert config.changefeed("two").time_zone == "Asia/Shanghai"
    assert config.changefeed("two").redacted_sink_uri == "s3://b/two?protocol=csv"


FULL: dict[str, Any] = {
    "catalog": {"name": "lake", "type": "sql", "uri": "sqlite:///c.db", "warehouse": "w", "properties": {"a": "b"}},
    "spark": {"master": "local[2]", "conf": {"a": "b"}},
    "changefeeds": {
        "shop": {
            "sink_uri": "kafka://h:9092/t?protocol=avro&enable-tidb-extension=true",
            "config": {
                "case-sensitive": True,
                "sink": {
                    "dispatchers": [{"matcher": ["a.*"], "topic": "x_{table}", "partition": "ts"}],
                    "csv": {"delimiter": ",", "quote": "'"},
                    "kafka-config": {
                        "sasl-user": "u",
                        "codec-config": {"encoding-format": "json"},
                        "large-message-handle": {"claim-check-storage-uri": "s3://b/c"},
                    },
                },
                "integrity": {"integrity-check-level": "correctness"},
            },
            "source": {"kafka": {"bootstrap_servers": ["h:1"], "security": {"username": "u"}, "options": {"a": "b"}}},
            "schema_registry": {"url": "https://r", "auth": {"user": "u", "password": "p"}},
            "claim_check": "s3://b/c",
            "keys": {"a.b": ["c"]},
            "partition": {"a.b": ["bucket(16)"]},
            "target": {"mirror": "{schema}.{table}", "control": "ticdc_{changefeed}"},
        }
    },
}


def places(value: Any) -> list[list[Any]]:
    """Every path into nested mappings and lists."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [[key, *rest] for key, below in items for rest in ([], *places(below))]


ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.dates(),
    st.binary(max_size=3),
    st.text(max_size=12),
    st.sampled_from(["*", "{", "s3://", "kafka://h", "http://[", "a(b", "bucket(9999999999999999999)", "../x"]),
    st.just([]),
    st.just({}),
    st.just({"env": "X"}),
    st.lists(st.one_of(st.none(), st.integers(), st.text(max_size=3)), max_size=3),
    st.dictionaries(st.text(max_size=5), st.one_of(st.none(), st.text(max_size=3)), max_size=2),
)


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(places(FULL)), ODD), min_size=1, max_size=3))
def test_any_value_at_any_place_loads_or_is_a_config_error(tmp_path_factory, mutations):
    values = json.loads(json.dumps(FULL))
    for place, odd in mutations:
        above: Any = values
        for step in place[:-1]:
            known = above if isinstance(above, dict) else range(len(above)) if isinstance(above, list) else ()
            above = above[step] if step in known else None
        if isinstance(above, dict) or (isinstance(above, list) and len(above) > 0 and place[-1] == 0):
            above[place[-1]] = odd
    path = tmp_path_factory.mktemp("c") / "c.yaml"
    path.write_text(yaml.safe_dump(values, allow_unicode=True), encoding="utf-8")

    try:
        load(path, {})
    except ConfigError as error:
        assert error.todo


def test_the_full_config_that_is_mutated_is_right(tmp_path):
    assert loaded(tmp_path, FULL).changefeed("shop").warnings == ()


def test_a_config_is_a_frozen_value_that_pickles(tmp_path):
    config = loaded(tmp_path, with_feed(config={"sink": {"csv": {"quote": ""}}}))

    assert config == pickle.loads(pickle.dumps(config))
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.changefeed("shop").time_zone = "x"


def test_an_unknown_changefeed_is_refused_with_the_known_ones(tmp_path):
    with pytest.raises(ConfigError, match="shop"):
        loaded(tmp_path, MINIMAL).changefeed("shp")


# ---- catalog and Spark


def test_other_catalogs_take_their_settings_as_they_are(tmp_path):
    config = loaded(
        tmp_path,
        {
            "catalog": {
                "name": "prod",
                "type": "rest",
                "uri": "https://catalog/api",
                "warehouse": "main",
                "properties": {"credential": {"env": "CATALOG_LOGIN"}, "s3.path-style-access": True, "retries": 3},
            },
            "spark": {"remote": "sc://spark:15002", "conf": {"spark.executor.instances": 4}},
            **with_feed(),
        },
        CATALOG_LOGIN="id:hunter2",
    )

    assert config.catalog.properties["credential"] == "id:hunter2"
    assert config.catalog.properties["s3.path-style-access"] == "true"
    assert config.catalog.uri == "https://catalog/api"
    assert config.spark.remote == "sc://spark:15002"
    assert config.spark.conf["spark.executor.instances"] == "4"
    assert "hunter2" not in repr(config)


@pytest.mark.parametrize(
    ("section", "found"),
    [
        ({"catalog": {"type": "slq"}}, "Did you mean sql?"),
        ({"catalog": {"type": "rest"}}, "catalog's address"),
        ({"catalog": {"name": "my lake"}}, "Rename the catalog."),
        ({"catalog": {"properties": {"a": [1]}}}, "a list"),
        ({"spark": {"master": "local", "remote": "sc://h"}}, "both"),
        ({"spark": {"remote": "h:1"}}, "sc://host"),
        ({"spark": 3}, "a mapping"),
    ],
)
def test_catalog_and_spark_faults(tmp_path, section, found):
    assert found in str(refused(tmp_path, {**section, **with_feed()}))


def test_hive_and_glue_get_names_without_upper_case(tmp_path):
    values = {"catalog": {"type": "glue", "warehouse": "s3://lake/w"}, **with_feed()}

    assert loaded(tmp_path, values).changefeed("shop").target.portable
    assert loaded(tmp_path, values).catalog.uri is None


@pytest.mark.parametrize("uri", ["postgresql://u:hunter2@db/iceberg", "sqlite:////absolute/c.db", "sqlite:///:memory:"])
def test_other_sql_uris_stay_as_they_are(tmp_path, uri):
    catalog = loaded(tmp_path, {"catalog": {"uri": uri, "warehouse": "s3://w/h"}, **with_feed()}).catalog

    assert (catalog.uri, catalog.warehouse) == (uri, "s3://w/h")
    assert "hunter2" not in f"{catalog!r} {catalog.redacted_uri}"


# ---- secrets

SECRET_URIS = [
    "kafka://user:hunter2@h:9092/t?protocol=open-protocol",
    "kafka://hunter2@h:9092/t?protocol=open-protocol",
    "kafka://h:9092/t?protocol=open-protocol&sasl-user=u&sasl-password=hunter2",
    "kafka://h:9092/t?protocol=open-protocol&sasl-oauth-client-secret=hunter2",
    "kafka://h:9092/t?protocol=open-protocol&sasl%2Dpassword=hunter2",
    "kafka://h:9092/t?protocol=avro&schema-registry=http%3A%2F%2Fu%3Ahunter2%40registry",
    "s3://b/p?protocol=csv&access-key=hunter2a&secret-access-key=hunter2",
    "s3://b/p?protocol=csv&session-token=hunter2",
    "s3://b/p?protocol=csv&sasl-password=ab&hunter2",
    "s3://b/p?protocol=csv&sasl-password=ab#hunter2",
    "azblob://b/p?protocol=csv&account-key=hunter2",
    "azblob://b/p?protocol=csv&sas-token=sv%3D1%26sig%3Dhunter2",
    "gcs://b/p?protocol=csv&credentials-file=hunter2",
    "kafka://user:hun/hunter2@h:9092/t?protocol=csv",
    "kafka://user:hun?hunter2@h:9092/t?protocol=csv",
    "kafka://user:12/hunter2@h:9092/t?protocol=csv",
    "kafka://[hunter2/t?protocol=csv",
    "kafka://user:hunter2",
]


@pytest.mark.parametrize("uri", SECRET_URIS)
def test_a_redacted_uri_holds_no_credential(uri):
    assert "hunter2" not in redacted(uri)
    assert redacted(uri).startswith(uri.partition("://")[0])


@pytest.mark.parametrize(
    "uri",
    [
        "kafka://h:9092/t?protocol=open-protocol&max-message-bytes=2500",
        "kafka://a:9092,b:9092,[::1]:9092/t?protocol=simple&encoding-format=avro",
        "s3://bucket/pre fix/ü?endpoint=http://minio:9000&region=eu",
        "file:///x?protocol=csv",
        "no uri",
    ],
)
def test_a_redacted_uri_keeps_all_else(uri):
    assert uri == redacted(uri)


@pytest.mark.parametrize("uri", SECRET_URIS)
def test_nothing_that_is_printed_holds_a_credential(tmp_path, uri):
    values = with_feed(
        sink_uri=uri,
        source={"capture": "messages.jsonl"} if uri.startswith("kafka") else None,
        schema_registry={"url": "https://u:hunter2@registry/x", "auth": {"user": "u", "password": "hunter2"}},
        config={"sink": {"kafka-config": {"sasl-password": "hunter2"}, "date-separatr": "hunter2"}},
    )
    try:
        config = loaded(tmp_path, values)
    except ConfigError as error:
        assert "hunter2" not in str(error)
        assert "hunter2" not in repr(error)
        return

    shop = config.changefeed("shop")
    printed = f"{config!r} {config} {pprint.pformat(config)} {shop.redacted_sink_uri} {shop.sink_uri} {shop.warnings}"
    assert "hunter2" not in printed
    assert uri == shop.sink_uri.reveal()


def test_secrets_come_from_the_environment_and_are_hidden(tmp_path):
    values = with_feed(
        sink_uri={"env": "SINK"},
        source={"kafka": {"security": {"username": "u", "password": {"env": "KAFKA_PASSWORD"}}}},
        schema_registry={"url": "https://registry", "auth": {"env": "REGISTRY"}},
        config={"sink": {"kafka-config": {"sasl-password": {"env": "KAFKA_PASSWORD"}}}},
    )

    config = loaded(
        tmp_path,
        values,
        SINK="kafka://h:9092/t?protocol=avro",
        KAFKA_PASSWORD='hun"ter2',
        REGISTRY="me:hunter2",
    )

    shop = config.changefeed("shop")
    assert shop.schema_registry is not None
    assert shop.schema_registry.auth is not None
    assert (shop.schema_registry.auth.user, shop.schema_registry.auth.password) == ("me", Secret("hunter2"))
    assert isinstance(shop.source, KafkaSource)
    assert shop.source.options["sasl.jaas.config"].endswith('username="u" password="hun\\"ter2";')
    assert "ter2" not in repr(config)


def test_a_missing_variable_is_named(tmp_path):
    error = refused(tmp_path, with_feed(sink_uri={"env": "SINK"}))

    assert "environment variable SINK" in str(error)
    assert "sink_uri" in error.where
    assert "faults" not in str(error)


@pytest.mark.parametrize("value", [{"env": "A", "default": "x"}, {"env": 3}, {"evn": "A"}, 3, ["a"]])
def test_what_is_no_text_and_no_variable_is_refused(tmp_path, value):
    assert "env: NAME" in str(refused(tmp_path, with_feed(time_zone=value), A="UTC"))


def test_secrets_print_as_stars():
    secret = Secret("hunter2")

    assert "hunter2" not in f"{secret} {secret!r} {[secret]}"
    assert secret == pickle.loads(pickle.dumps(secret))
    assert secret.reveal() == "hunter2"
    assert secret != Secret("other")


def test_settings_hide_what_their_names_give_away():
    options = Settings({"s3.secret-access-key": "hunter2", "s3.region": "eu", "mine": "hunter2"}, frozenset({"mine"}))

    assert "hunter2" not in repr(options)
    assert "eu" in repr(options)
    assert dict(options)["mine"] == "hunter2"
    assert options == pickle.loads(pickle.dumps(options))


# ---- the changefeed's own options


@needs_fixtures
@pytest.mark.parametrize("workload", workloads(), ids=lambda w: w.name)
def test_every_real_changefeed_is_understood_without_warnings(workload):
    uri, config = workload.variant["sink_uri"], workload.variant["config"]

    options, warnings = read_sink(uri, config)

    assert warnings == ()
    assert f"protocol={options.protocol.value}" in uri
    assert options.enable_tidb_extension == ("enable-tidb-extension=true" in uri)
    assert (options.encoding_format == "avro") == ("encoding-format=avro" in uri)
    assert options.only_output_updated_columns == (
        "only-output-updated-columns=true" in uri or "content-compatible=true" in uri
    )
    sink = config["sink"]
    assert options.date_separator.value == sink.get("date-separator", "day")
    assert options.terminator == sink.get("terminator", "\r\n")
    assert options.force_replicate == config.get("force-replicate", False)
    assert options.open_output_old_value == sink.get("open", {}).get("output-old-value", True)
    assert options.integrity.enabled == ("integrity" in config)
    for name, value in sink.get("csv", {}).items():
        assert getattr(options.csv, name.replace("-", "_")) == value
    for name, value in sink.get("cloud-storage-config", {}).items():
        assert getattr(options, name.replace("-", "_")) == value
    large = sink.get("kafka-config", {}).get("large-message-handle", {})
    assert options.large_message.option.value == large.get("large-message-handle-option", "none")
    assert options.large_message.compression.value == (large.get("large-message-handle-compression") or "none")
    assert options.large_message.claim_check_raw_value == large.get("claim-check-raw-value", False)
    assert (options.large_message.claim_check is not None) == bool(large.get("claim-check-storage-uri"))
    assert [rule.topic for rule in options.dispatchers] == [rule["topic"] for rule in sink.get("dispatchers", [])]


@needs_fixtures
def test_every_real_changefeed_loads_from_a_config(tmp_path):
    feeds = {}
    for workload in workloads():
        name = workload.name.replace("/", "_").replace("-", "_")
        form = "storage" if (workload.root / "data").is_dir() else "capture"
        place = workload.root / ("data" if form == "storage" else "messages.jsonl")
        variant = workload.variant
        feeds[name] = {"sink_uri": variant["sink_uri"], "config": variant["config"], "source": {form: str(place)}}
        feeds[name]["time_zone"] = variant.get("time_zone", "UTC")

    config = loaded(tmp_path, {"changefeeds": feeds})

    assert len(config.changefeeds) == len(workloads())
    for changefeed in config.changefeeds:
        if changefeed.sink.protocol is Protocol.AVRO:
            assert changefeed.schema_registry is not None
            assert changefeed.schema_registry.file is not None
            assert json.loads(changefeed.schema_registry.file.read_text())
        if changefeed.sink.large_message.option is LargeMessageOption.CLAIM_CHECK:
            assert changefeed.claim_check is not None
            assert Path(changefeed.claim_check.location).is_dir()


def test_options_have_ticdc_defaults():
    options, _ = read_sink("kafka://h:9092/t?protocol=open-protocol", {})

    assert options.csv == CsvOptions(",", '"', "\\N", False, "base64", False, False, False)
    assert (options.date_separator, options.file_index_width) == (DateSeparator.DAY, 20)
    assert (options.enable_partition_separator, options.terminator) == (True, "\r\n")
    assert (options.avro_decimal_handling_mode, options.avro_bigint_unsigned_handling_mode) == ("precise", "long")
    assert (options.open_output_old_value, options.case_sensitive, options.encoding_format) == (True, False, "json")


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
            "enable_tidb_extension",
            True,
        ),
        (
            "kafka://h/t?protocol=canal-json&enable-tidb-extension=false",
            {"sink": {"kafka-config": {"codec-config": {"enable-tidb-extension": True}}}},
            "enable_tidb_extension",
            False,
        ),
        ("kafka://h/t?protocol=canal-json&enable-tidb-extension=1", {}, "enable_tidb_extension", True),
        ("kafka://h/t?protocol=canal-json&enable-tidb-extension=", {}, "enable_tidb_extension", False),
        ("kafka://h/t?protocol=canal-json&content-compatible=true", {}, "only_output_updated_columns", True),
        ("kafka://h/t?protocol=open&content-compatible=true", {}, "only_output_updated_columns", False),
        ("file:///x?protocol=csv", {"sink": {"file-index-digit": 6}}, "file_index_width", 6),
        ("file:///x?protocol=csv", {"sink": {"file_index_width": 7}}, "file_index_width", 7),
        ("file:///x?protocol=csv", {"sink": {"file-index-digit": 5}}, "file_index_width", 20),
        ("file:///x?protocol=csv", {"sink": {"file-index-digit": 21}}, "file_index_width", 20),
        ("file:///x?protocol=csv", {"sink": {"terminator": ""}}, "terminator", "\r\n"),
        ("file:///x?protocol=csv", {"sink": {"date-separator": ""}}, "date_separator", DateSeparator.NONE),
        ("file:///x?protocol=csv", {"sink": {"date_separator": "Month"}}, "date_separator", DateSeparator.MONTH),
        ("file:///x?protocol=csv", {"case_sensitive": True}, "case_sensitive", True),
        (
            "file:///x?protocol=csv",
            {"sink": {"cloud_storage_config": {"output_raw_change_event": True}}},
            "output_raw_change_event",
            True,
        ),
        (
            "kafka://h/t?protocol=csv",
            {"sink": {"cloud-storage-config": {"output-raw-change-event": True}}},
            "output_raw_change_event",
            False,
        ),
        (
            "kafka://h/t?protocol=simple",
            {"sink": {"kafka-config": {"output-raw-change-event": True}}},
            "output_raw_change_event",
            True,
        ),
        (
            "kafka://h/t?protocol=open",
            {"sink": {"dispatchers": [{"matcher": ["a.*"], "dispatcher": "ts"}]}},
            "dispatchers",
            (DispatchRule(("a.*",), "ts", ""),),
        ),
        ("kafka://h/t?protocol=debezium&debezium-disable-schema=true", {}, "debezium_disable_schema", True),
        ("kafka://h/t?protocol=debezium", {"sink": {"debezium-disable-schema": True}}, "debezium_disable_schema", True),
        ("s3://b/p?protocol=csv&use-table-id-as-path=true", {}, "use_table_id_as_path", True),
        ("file:///x?protocol=csv", {"scheduler": {"enable-table-across-nodes": True}}, "table_across_nodes", True),
    ],
)
def test_an_option_is_read_as_ticdc_reads_it(uri, config, field, value):
    options, _ = read_sink(uri, config)

    assert value == getattr(options, field)


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
        ({"dispatchers": [{"matcher": "a.*"}]}, "matcher"),
        ({"kafka-config": {"large-message-handle": {"large-message-handle-option": "claimcheck"}}}, "option"),
        ({"kafka-config": {"large-message-handle": {"large-message-handle-compression": "zstd"}}}, "compression"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_with_its_place(sink, place):
    with pytest.raises(ConfigError) as caught:
        read_sink("s3://b/p?protocol=csv", {"sink": sink})

    assert place in caught.value.where
    assert caught.value.todo


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
    ("uri", "config", "words"),
    [
        ("file:///x?protocol=csv", {"sink": {"date-seperator": "none"}}, "sink.date-separator"),
        ("file:///x?protocol=csv", {"sink": {"csv": {"include-comit-ts": True}}}, "sink.csv.include-commit-ts"),
        ("file:///x?protocol=csv", {"csv": {"quote": "'"}}, "sink.csv"),
        ("file:///x?protocol=csv", {"date-separator": "none"}, "sink.date-separator"),
        ("kafka://h/t?protocol=open", {"sink": {"large-message-handle": {}}}, "sink.kafka-config.large-message-handle"),
        ("kafka://h/t?protocol=canal-json&enable-tidb-extention=true", {}, "enable-tidb-extension"),
        ("file:///x?protocol=csv&date-separator=none", {}, "sink.date-separator"),
        ("kafka://h/t?protocol=open", {"sink": {"protocol": "avro"}}, "sink_uri wins"),
        ("file:///x?protocol=csv", {"sink": {"enable-partition-separator": False}}, "overwrite"),
    ],
)
def test_what_looks_misspelt_or_lossy_gives_one_warning(uri, config, words):
    _, warnings = read_sink(uri, config)

    assert len(warnings) == 1
    assert words in warnings[0]


def test_ticdc_keys_that_do_not_matter_give_no_warning():
    config = {
        "memory-quota": 1,
        "enable-old-value": True,
        "enable-sync-point": False,
        "sync-point-interval": "10m",
        "bdr-mode": False,
        "sql-mode": "",
        "mounter": {"worker-num": 16},
        "filter": {"rules": ["*.*"], "event-filters": [{"matcher": ["a.b"], "ignore-event": ["insert"]}]},
        "consistent": {"level": "none", "storage": "", "compression": "lz4"},
        "scheduler": {"enable-table-across-nodes": False, "region-threshold": 1, "write-key-threshold": 0},
        "changefeed-error-stuck-duration": "30m",
        "sink": {
            "transaction-atomicity": "none",
            "column-selectors": [],
            "encoder-concurrency": 16,
            "enable-kafka-sink-v2": False,
            "safe-mode": True,
            "advance-timeout-in-sec": 150,
            "send-bootstrap-interval-in-sec": 120,
            "send-bootstrap-in-msg-count": 1000,
            "send-bootstrap-to-all-partition": True,
            "kafka-config": {
                "partition-num": 1,
                "kafka-version": "2.4.0",
                "compression": "lz4",
                "required-acks": -1,
                "enable-tls": True,
                "codec-config": {"max-batch-size": 16, "avro-include-before-value": True},
            },
            "cloud-storage-config": {
                "worker-count": 8,
                "flush-interval": "5s",
                "file-size": 67108864,
                "file-expiration-days": 0,
                "file-cleanup-cron-spec": "0 0 2 * * *",
                "flush-concurrency": 1,
                "spool-disk-quota": 1,
            },
            "pulsar-config": {"authentication-token": "x"},
            "mysql-config": {"worker-count": 16},
        },
    }
    uri = "kafka://h/t?protocol=open-protocol&kafka-version=2.4.0&partition-num=6&max-message-bytes=1&replication-factor=1"

    assert read_sink(uri, config)[1] == ()


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


# ---- source


@pytest.mark.parametrize(
    ("uri", "location", "options"),
    [
        ("file:///data/cdc/?protocol=csv", "/data/cdc", {}),
        ("file:///data/a%20b?protocol=csv", "/data/a b", {}),
        ("local:///data?protocol=csv", "/data", {}),
        ("s3://b/p/q/?protocol=csv&endpoint=http://minio:9000&access-key=a", "s3://b/p/q", ["endpoint", "access-key"]),
        ("gcs://b/p?protocol=csv&credentials-file=/k.json", "gcs://b/p", ["credentials-file"]),
        ("azblob://c/p?protocol=csv&account-name=n", "azblob://c/p", ["account-name"]),
        ("s3://b?protocol=csv", "s3://b", {}),
        ("abfss://c@a.dfs.core.windows.net/p?protocol=csv", "abfss://c@a.dfs.core.windows.net/p", {}),
    ],
)
def test_a_storage_sink_is_read_where_it_writes(tmp_path, uri, location, options):
    source = feed(tmp_path, sink_uri=uri).source

    assert isinstance(source, StorageSource)
    assert location == source.storage.location
    assert sorted(options) == sorted(source.storage.options)


def test_a_kafka_sink_is_read_where_it_writes(tmp_path):
    source = feed(
        tmp_path,
        sink_uri="kafka://a:9092,b:9092/main?protocol=open-protocol&sasl-user=u&sasl-password=p&sasl-mechanism=scram-sha-256",
        config={
            "sink": {
                "dispatchers": [
                    {"matcher": ["a.*"], "topic": "tidb_{schema}_{table}"},
                    {"matcher": ["b.*"], "topic": "other"},
                    {"matcher": ["c.*"], "partition": "ts"},
                ],
                "kafka-config": {"enable-tls": True},
            }
        },
    ).source

    assert isinstance(source, KafkaSource)
    assert source.bootstrap_servers == ("a:9092", "b:9092")
    assert source.topics == ("main", "other")
    assert source.topic_pattern == "tidb_[A-Za-z0-9._-]+_[A-Za-z0-9._-]+"
    assert source.options["security.protocol"] == "SASL_SSL"
    assert source.options["sasl.mechanism"] == "SCRAM-SHA-256"
    assert 'ScramLoginModule required username="u" password="p";' in source.options["sasl.jaas.config"]


def test_a_configured_source_wins_over_the_sink_uri(tmp_path):
    assert feed(tmp_path, source={"storage": "copy"}).source.storage.location == f"{tmp_path}/copy"
    assert feed(tmp_path, source={"capture": "m.jsonl"}).source == CaptureSource(tmp_path / "m.jsonl")
    kafka = feed(
        tmp_path,
        source={
            "kafka": {
                "bootstrap_servers": "x:1, y:2",
                "topics": "t",
                "security": {"protocol": "ssl", "ca": "/ca.pem"},
                "options": {"fetch.max.bytes": 5},
            }
        },
    ).source
    assert kafka.bootstrap_servers == ("x:1", "y:2")
    assert kafka.topics == ("t",)
    assert dict(kafka.options) == {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/ca.pem",
        "fetch.max.bytes": "5",
    }


def test_storage_options_join_those_of_the_uri(tmp_path):
    source = feed(
        tmp_path,
        environ={"KEY": "hunter2"},
        source={"storage": "s3://b/p?region=eu", "options": {"secret-access-key": {"env": "KEY"}}},
    ).source

    assert dict(source.storage.options) == {"region": "eu", "secret-access-key": "hunter2"}
    assert "hunter2" not in repr(source)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"source": {"storage": "a", "capture": "b"}}, "storage and capture"),
        ({"source": {"storage": "a", "options": {"regoin": "eu"}}}, "region"),
        ({"source": {"storage": "ftp://a"}}, "storage URI"),
        ({"source": {"storage": "file://host/a"}}, "three slashes"),
        ({"source": {"kafka": {"topic": "t"}}}, "Did you mean topics?"),
        ({"source": {"kafka": {"bootstrap_servers": "h:1", "topic_pattern": "("}}}, "brackets"),
        ({"source": {"kafka": {"options": {"a": 1}}}}, "bootstrap_servers"),
        ({"source": {"kafka": {"options": {"a": 1}}}}, "topic_pattern"),
        ({"source": {"capture": "m"}, "sink_uri": "file:///x?protocol=csv"}, "csv"),
        ({"source": {"storage": "m"}, "sink_uri": "kafka://h/t?protocol=open"}, "open-protocol"),
        ({"sink_uri": "mysql://h/?protocol=open-protocol"}, "Add source:"),
        ({"sink_uri": "kafka://h?protocol=open-protocol"}, "topic"),
    ],
)
def test_source_faults(tmp_path, keys, words):
    assert words in str(refused(tmp_path, with_feed(**keys)))


# ---- schema registry, claim check


def test_the_registry_of_the_sink_uri_is_used_without_its_password_in_sight(tmp_path):
    uri = "kafka://h/t?protocol=avro&schema-registry=http://u:p%2540@registry:8081/x/"
    registry = feed(tmp_path, sink_uri=uri).schema_registry

    assert registry.url == "http://registry:8081/x"
    assert (registry.auth.user, registry.auth.password) == ("u", Secret("p@"))


def test_the_avro_protocol_needs_a_registry(tmp_path):
    values = with_feed(sink_uri="kafka://h/t?protocol=avro")

    assert "schema_registry: {url" in str(refused(tmp_path, values))


def test_a_registry_is_a_url_or_a_file(tmp_path):
    avro = {"sink_uri": "kafka://h/t?protocol=avro"}

    assert feed(tmp_path, **avro, schema_registry={"file": "r.json"}).schema_registry.file == tmp_path / "r.json"
    token = feed(tmp_path, **avro, schema_registry={"url": "https://r", "auth": {"token": "t"}}).schema_registry
    assert token.auth.token == Secret("t")
    assert "both" in str(refused(tmp_path, with_feed(**avro, schema_registry={"url": "https://r", "file": "r"})))
    assert "http" in str(refused(tmp_path, with_feed(**avro, schema_registry={"url": "ftp://r"})))


def test_an_upstream_has_tidbs_port_and_no_tls_unless_told(tmp_path):
    upstream = feed(tmp_path, upstream={"host": "tidb.example", "user": "reader"}).upstream

    assert upstream == Upstream("tidb.example", "reader", 4000, None, None)
    assert feed(tmp_path).upstream is None


def test_an_upstream_takes_its_password_from_the_environment_and_its_files_from_beside_the_config(tmp_path):
    tls = {"ca": "ca.pem", "cert": "/etc/c.pem", "key": "k.pem"}
    upstream = {"host": "h", "port": {"env": "PORT"}, "user": "u", "password": {"env": "PASSWORD"}, "tls": tls}

    config = loaded(tmp_path, with_feed(upstream=upstream), PASSWORD="hunter2", PORT="4001")

    found = config.changefeed("shop").upstream
    assert found == Upstream(
        "h", "u", 4001, Secret("hunter2"), UpstreamTls(tmp_path / "ca.pem", Path("/etc/c.pem"), tmp_path / "k.pem")
    )
    assert "hunter2" not in repr(config)


@pytest.mark.parametrize(("written", "wanted"), [(True, UpstreamTls()), (False, None)])
def test_tls_of_an_upstream_may_be_switched(tmp_path, written, wanted):
    assert feed(tmp_path, upstream={"host": "h", "user": "u", "tls": written}).upstream.tls == wanted


@pytest.mark.parametrize(
    ("upstream", "words"),
    [
        ({"user": "u"}, "the name or address of a TiDB server"),
        ({"host": "h"}, "who reads there"),
        ({"host": "h", "user": "u", "port": 0}, "a port between 1 and 65535"),
        ({"host": "h", "user": "u", "port": 65536}, "a port between 1 and 65535"),
        ({"host": "h", "user": "u", "port": "mysql"}, "a port between 1 and 65535"),
        ({"host": "h", "user": "u", "port": 40.5}, "a port between 1 and 65535"),
        ({"host": "h", "user": "u", "password": 12}, "a text"),
        ({"host": "h", "user": "u", "tls": {"cert": "c.pem"}}, "cert and key, or neither"),
        ({"host": "h", "user": "u", "tls": "yes"}, "a mapping"),
        ({"host": "h", "user": "u", "tls": {"authority": "c.pem"}}, "a known key"),
        ("tidb:4000", "a mapping"),
    ],
)
def test_upstream_faults(tmp_path, upstream, words):
    assert words in str(refused(tmp_path, with_feed(upstream=upstream)))


def test_claim_check_without_a_place_is_refused(tmp_path):
    large = {"sink": {"kafka-config": {"large-message-handle": {"large-message-handle-option": "claim-check"}}}}
    values = {"sink_uri": "kafka://h/t?protocol=open", "config": large}

    assert "claim_check" in str(refused(tmp_path, with_feed(**values)))
    assert feed(tmp_path, **values, claim_check="claims").claim_check.location == f"{tmp_path}/claims"


# ---- what this project is told


def test_the_filter_follows_the_changefeeds_case_sensitivity(tmp_path):
    tables = ["Shop.*", "!Shop.tmp_*"]

    loose = feed(tmp_path, tables=tables)
    strict = feed(tmp_path, tables=tables, config={"case-sensitive": True})

    assert loose.tables.matches("shop", "a")
    assert not loose.tables.matches("shop", "TMP_a")
    assert not strict.tables.matches("shop", "a")
    assert "filter rule" in str(refused(tmp_path, with_feed(tables=["shop"])))


def test_keys_and_partitions_are_given_by_pattern_and_the_last_match_decides(tmp_path):
    shop = feed(
        tmp_path,
        keys={"*.*": ["id"], 'shop."a.b"': ["x", "y"]},
        partition={"*.*": "bucket(16)", "shop.log*": ["days(created)", "bucket(4, user_id)"], "shop.tiny": "none"},
    )

    assert shop.key_of("shop", "a.b") == ("x", "y")
    assert shop.key_of("shop", "c") == ("id",)
    assert shop.partition_of("shop", "orders") == (PartitionField("bucket", 16, None),)
    assert shop.partition_of("shop", "logs") == (
        PartitionField("day", None, "created"),
        PartitionField("bucket", 4, "user_id"),
    )
    assert shop.partition_of("shop", "tiny") == ()
    assert feed(tmp_path, partition="truncate(4, name)").partition_of("a", "b") == (
        PartitionField("truncate", 4, "name"),
    )


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"keys": {"shop.t": []}}, "key's columns"),
        ({"keys": {"shop.t": ["a", "a"]}}, "key's columns"),
        ({"keys": {"shop": ["a"]}}, "filter rule"),
        ({"keys": ["a"]}, "a mapping"),
        ({"partition": "buket(16)"}, "Did you mean bucket(...)?"),
        ({"partition": "bucket(id)"}, "a number"),
        ({"partition": "bucket(0)"}, "a number"),
        ({"partition": "day(3, a)"}, "a number"),
        ({"partition": "day()"}, "Write day(column)."),
        ({"partition": {"*.*": "truncate(4)"}}, "a column"),
        ({"format_version": "3"}, "2 or 3"),
        ({"format_version": True}, "2 or 3"),
        ({"zero_dates": "nul"}, "Did you mean null?"),
        ({"schema_files": ["none/*.sql"]}, "none that match"),
        ({"ddl_from": "shop"}, "another changefeed"),
        ({"ddl_from": "other"}, "another changefeed"),
        ({"config": {"sink": {}}, "config_file": "x.toml"}, "both"),
        ({"config_file": "none.toml"}, "none.toml"),
        ({"config": "sink"}, "a mapping"),
        ({"time_zone": "../etc/passwd"}, "IANA"),
        ({"target": {"mirror": "{schema}.{tble}"}}, "target.mirror"),
    ],
)
def test_faults_of_what_this_project_is_told(tmp_path, keys, words):
    assert words in str(refused(tmp_path, with_feed(**keys)))


def test_schema_files_are_found_in_order(tmp_path):
    for name in ("b.sql", "a.sql", "sub/c.sql", "d.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")

    shop = feed(tmp_path, schema_files=["*.sql", "sub/c.sql", str(tmp_path / "**" / "*.txt")])

    assert [path.name for path in shop.schema_files] == ["a.sql", "b.sql", "c.sql", "d.txt"]


def test_a_toml_fault_names_the_file_and_the_line_without_quoting_it(tmp_path):
    (tmp_path / "c.toml").write_text('[sink]\nsasl-password = hunter2"\n')

    error = refused(tmp_path, with_feed(config_file="c.toml"))

    assert "c.toml" in str(error)
    assert "line 2" in str(error)
    assert "hunter2" not in str(error)


def test_choices_are_taken(tmp_path):
    shop = feed(
        tmp_path, zero_dates="error", on_bad_message="stop", on_drop="drop", format_version=2, skip_files="*/CDC01.csv"
    )

    assert (shop.zero_dates, shop.on_bad_message, shop.on_drop) == (ZeroDates.ERROR, OnBadMessage.STOP, OnDrop.DROP)
    assert (shop.format_version, shop.skip_files) == (2, ("*/CDC01.csv",))
    assert feed(tmp_path, zero_dates=None).zero_dates is ZeroDates.NULL
    assert feed(tmp_path, zero_dates="null").zero_dates is ZeroDates.NULL


def test_ddl_comes_from_a_changefeed_that_has_it(tmp_path):
    uri = "kafka://h/t?protocol=avro&enable-tidb-extension=true"
    avro = {"sink_uri": uri, "schema_registry": {"file": "r.json"}, "ddl_from": "ddl"}
    config = loaded(tmp_path, {"changefeeds": {"rows": avro, "ddl": {"sink_uri": "s3://b/p?protocol=canal-json"}}})

    assert config.changefeed("rows").ddl_from == "ddl"
    assert "carries DDL" in str(refused(tmp_path, {"changefeeds": {"rows": avro, "ddl": {**avro, "ddl_from": "rows"}}}))
    typo = {"changefeeds": {"rows": {**avro, "ddl_from": "ddll"}, "ddl": {"sink_uri": "s3://b/p?protocol=canal-json"}}}
    assert "Did you mean ddl?" in str(refused(tmp_path, typo))


def test_ddl_is_taken_only_where_rows_can_be_put_in_order_with_it(tmp_path):
    ddl = {"sink_uri": "s3://b/p?protocol=canal-json"}
    plain = {"sink_uri": "kafka://h/t?protocol=avro", "schema_registry": {"file": "r.json"}, "ddl_from": "ddl"}
    told = {"sink_uri": "kafka://h/t?protocol=simple", "ddl_from": "ddl"}

    assert "enable-tidb-extension=true" in str(refused(tmp_path, {"changefeeds": {"rows": plain, "ddl": ddl}}))
    assert "tells its own statements" in str(refused(tmp_path, {"changefeeds": {"rows": told, "ddl": ddl}}))


def test_changefeeds_do_not_share_control_tables(tmp_path):
    one = {"sink_uri": "s3://b/p?protocol=csv"}

    assert "control namespace" in str(refused(tmp_path, {"changefeeds": {"shop": one, "Shop": one}}))
    shared = {**one, "target": {"control": "ticdc"}}
    assert "control namespace" in str(refused(tmp_path, {"changefeeds": {"one": shared, "two": shared}}))


def test_what_a_storage_uri_tells_of_its_store_reaches_whoever_opens_it_and_nobody_who_prints_it(tmp_path: Path):
    config = loaded(
        tmp_path,
        """
changefeeds:
  shop:
    sink_uri: "s3://bucket/prefix?protocol=csv&endpoint=http://127.0.0.1:9&access-key=AKIA&secret-access-key=hu%2Fsh"
    source:
      storage: "s3://other/place?access-key=AKIA"
      options: {secret-access-key: "hu/sh", region: eu}
""",
    )

    source = config.changefeed("shop").source

    assert isinstance(source, StorageSource)
    assert source.storage.uri == "s3://other/place?access-key=AKIA&secret-access-key=hu%2Fsh&region=eu"
    assert "hu/sh" not in repr(config)
    assert "hu%2Fsh" not in repr(config)
