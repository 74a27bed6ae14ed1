"""A config file becomes a complete, frozen `Config`: its defaults, its catalog and Spark, its changefeeds together."""

from __future__ import annotations

import dataclasses
import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from ticdc_assets.config import (
    BadInputPolicy,
    DateSeparator,
    IdentifierTemplates,
    LargeMessageOption,
    LargeRowSources,
    MirrorConfig,
    OnBadMessage,
    OnDrop,
    Protocol,
    SchemaSources,
    StorageSource,
    ZeroDates,
    load,
)
from ticdc_assets.errors import ConfigError
from ticdc_assets_tests.config.config_file import MINIMAL, loaded, refused, with_feed, written
from ticdc_assets_tests.fixtures import needs_fixtures, workloads


def test_a_minimal_config_has_all_defaults(tmp_path):
    config = loaded(tmp_path, MINIMAL)

    assert (config.catalog.name, config.catalog.type) == ("lake", "sql")
    assert config.catalog.uri == f"sqlite:///{tmp_path}/lake/catalog.db"
    assert config.catalog.warehouse == f"{tmp_path}/lake/warehouse"
    assert (config.spark.master, dict(config.spark.conf)) == ("local[*]", {})
    shop = config.changefeed("shop")
    assert isinstance(shop.source, StorageSource)
    assert shop.source.storage.location == "s3://bucket/prefix"
    assert shop.bad_input == BadInputPolicy(OnBadMessage.QUARANTINE, ZeroDates.NULL, (), ())
    assert shop.mirror == MirrorConfig((), (), 3, OnDrop.KEEP)
    assert shop.schemas == SchemaSources(None, (), None)
    assert shop.large_rows == LargeRowSources(None, None)
    assert (shop.time_zone, shop.target) == ("UTC", IdentifierTemplates())
    assert shop.tables.matches("any", "table")
    assert shop.mirror.key_of("any", "table") is None
    assert shop.mirror.partition_of("any", "table") == ()
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
    assert shop.sink.layout.date_separator is DateSeparator.NONE
    assert shop.sink.content.enable_tidb_extension
    assert shop.tables.case_sensitive
    assert shop.large_rows.claim_check is not None
    assert shop.large_rows.claim_check.location == "s3://bucket/claims"


def test_the_path_wins_over_the_variable_and_the_variable_over_the_sample(tmp_path):
    one = written(tmp_path, MINIMAL, "one.yaml")
    other = written(tmp_path, MINIMAL.replace("shop", "other"), "other.yaml")

    assert load(one, {"TICDC_ASSETS_CONFIG": str(other)}).path == one
    assert load(None, {"TICDC_ASSETS_CONFIG": str(other)}).path == other


def test_a_missing_file_says_how_to_name_one(tmp_path):
    with pytest.raises(ConfigError, match="--config"):
        load(tmp_path / "none.yaml", {})


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


def test_a_config_is_a_frozen_value_that_pickles(tmp_path):
    config = loaded(tmp_path, with_feed(config={"sink": {"csv": {"quote": ""}}}))

    assert config == pickle.loads(pickle.dumps(config))
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.changefeed("shop").time_zone = "x"


def test_an_unknown_changefeed_is_refused_with_the_known_ones(tmp_path):
    with pytest.raises(ConfigError, match="shop"):
        loaded(tmp_path, MINIMAL).changefeed("shp")


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
            assert changefeed.schemas.registry is not None
            assert changefeed.schemas.registry.file is not None
            assert json.loads(changefeed.schemas.registry.file.read_text())
        if changefeed.sink.large_message.option is LargeMessageOption.CLAIM_CHECK:
            assert changefeed.large_rows.claim_check is not None
            assert Path(changefeed.large_rows.claim_check.location).is_dir()


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
            "spark": {"master": "spark://host:7077", "conf": {"spark.executor.instances": 4}},
            **with_feed(),
        },
        CATALOG_LOGIN="id:hunter2",
    )

    assert config.catalog.properties["credential"] == "id:hunter2"
    assert config.catalog.properties["s3.path-style-access"] == "true"
    assert config.catalog.uri == "https://catalog/api"
    assert config.spark.master == "spark://host:7077"
    assert config.spark.conf["spark.executor.instances"] == "4"
    assert "hunter2" not in repr(config)


@pytest.mark.parametrize(
    ("section", "found"),
    [
        ({"catalog": {"type": "slq"}}, "Did you mean sql?"),
        ({"catalog": {"type": "rest"}}, "catalog's address"),
        ({"catalog": {"name": "my lake"}}, "Rename the catalog."),
        ({"catalog": {"properties": {"a": [1]}}}, "a list"),
        ({"spark": {"remote": "sc://h"}}, "spark.remote (line 5): expected the master of a Spark with a JVM"),
        ({"spark": {"master": "sc://h"}}, "found Spark Connect. Mirrors are merged through the driver's own JVM"),
        (
            {"spark": {"conf": {"spark.sql.caseSensitive": False}}},
            "spark.conf (line 5): expected spark.sql.caseSensitive: true, found 'false'. Remove it.",
        ),
        (
            {"spark": {"conf": {"spark.remote": "sc://h"}}},
            "spark.conf (line 5): expected the master of a Spark with a JVM",
        ),
        ({"spark": {"conf": {"spark.master": "local"}}}, "found spark.master. Write it as master:, next to conf:."),
        (
            {"spark": {"conf": {"executor.memory": "1g"}}},
            "expected names that begin with spark., found 'executor.memory'.",
        ),
        ({"spark": 3}, "a mapping"),
        ({"catalog": {"portable_names": "yes"}}, "true or false"),
    ],
)
def test_settings_of_catalog_and_spark_that_cannot_be_right_are_refused(tmp_path, section, found):
    assert found in str(refused(tmp_path, {**section, **with_feed()}))


@pytest.mark.parametrize(
    "master",
    [
        *("local", "local[4]", "local[*]", "local[2,3]", "local-cluster[2,1,1024]", "yarn", "k8s://https://h:6443"),
        *("spark://h:7077", "spark://10.0.0.1:7077,h-2.example.com:7077"),
    ],
)
def test_every_master_of_spark_is_taken(tmp_path, master):
    assert loaded(tmp_path, {"spark": {"master": master}, **with_feed()}).spark.master == master


@pytest.mark.parametrize(
    ("catalog", "said"),
    [
        ({"uri": "jdbc:postgresql://h/d"}, "found jdbc:postgresql://. Write sqlite:////folder/catalog.db, postgresql+"),
        ({"uri": "postgres://u:hunter2@h/d"}, "found postgres://. Write"),
        ({"uri": "/lake/hunter2.db"}, "catalog.uri (line 2): expected SQLAlchemy's URI"),
        ({"uri": "u:hunter2@127.0.0.1"}, "found a text without one."),
        ({"uri": ""}, "found an empty text. Write one, or remove uri."),
        ({"type": "rest", "uri": "catalog:8181/hunter2"}, "begins with http:// or https://, found a text without one."),
        ({"type": "hive", "uri": "http://h:9083", "warehouse": "s3://l/w"}, "begins with thrift://, found http://."),
        ({"type": "glue", "uri": "http://h", "warehouse": "s3://l/w"}, "expected none for a catalog of type glue"),
        ({"properties": {"warehouse": "s3://l/w"}}, "found warehouse. Write it as warehouse:, next to properties:."),
        ({"properties": {"uri": "sqlite:///hunter2.db"}}, "found uri. Write it as uri:, next to properties:."),
    ],
)
def test_a_place_of_a_catalog_that_no_library_would_open_is_refused(tmp_path, catalog, said):
    error = str(refused(tmp_path, {"catalog": catalog, **with_feed()}))

    assert said in error
    assert "hunter2" not in error


@pytest.mark.parametrize(
    ("warehouse", "said"),
    [
        ("s3:/lake/w", "expected a URI or a folder, found 's3:/lake/w'. Write :// after the scheme"),
        ("file:/lake/w", "expected a URI or a folder"),
        ("file://lake/w", "found the host 'lake'. Write three slashes: file:///folder."),
        ("s3:///w", "expected the name of a bucket after ://, found none. Write s3://bucket/folder."),
        ("s3://lake//w", "expected one slash between two folders, found several."),
        ("s3://lake/w?region=x", "expected a URI without ? and #, found one with them."),
        ("s3://lake/w#1", "expected a URI without ? and #, found one with them."),
        ("s4://lake/w", "found s4://. Name a store that pyiceberg can write."),
        ("", "found an empty text. Write one, or remove warehouse."),
    ],
)
@pytest.mark.parametrize("kind", ["sql", "rest"])
def test_a_warehouse_that_libraries_would_read_in_different_ways_is_refused(tmp_path, kind, warehouse, said):
    if kind == "rest" and "://" not in warehouse and warehouse:
        pytest.skip("with REST, what is no URI is a name")
    uri = {"rest": "http://catalog", "sql": "sqlite:///c.db"}[kind]

    error = str(refused(tmp_path, {"catalog": {"type": kind, "uri": uri, "warehouse": warehouse}, **with_feed()}))

    assert said in error


@pytest.mark.parametrize(
    "warehouse", ["s3://lake/with space/", "s3://lake", "s3a://lake/größe", "file:///lake/w", "w:1"]
)
def test_a_warehouse_may_have_blanks_letters_of_any_script_and_a_slash_at_its_end(tmp_path, warehouse):
    found = loaded(tmp_path, {"catalog": {"type": "rest", "uri": "http://c", "warehouse": warehouse}, **with_feed()})

    assert found.catalog.warehouse == warehouse


def test_hive_and_glue_get_names_without_upper_case(tmp_path):
    values = {"catalog": {"type": "glue", "warehouse": "s3://lake/w"}, **with_feed()}

    assert loaded(tmp_path, values).changefeed("shop").target.portable
    assert loaded(tmp_path, values).catalog.uri is None


@pytest.mark.parametrize(
    ("catalog", "portable"),
    [
        ({}, False),
        ({"portable_names": True}, True),
        ({"properties": {"rest.signing-name": "s3tables"}}, True),
        ({"properties": {"rest.signing-name": "glue"}, "portable_names": False}, False),
        ({"properties": {"rest.signing-name": "execute-api"}}, False),
    ],
)
def test_a_rest_catalog_that_folds_case_gets_names_without_upper_case(tmp_path, catalog, portable):
    values = {"catalog": {"type": "rest", "uri": "https://c", **catalog}, **with_feed()}

    assert loaded(tmp_path, values).changefeed("shop").target.portable is portable


@pytest.mark.parametrize("uri", ["postgresql://u:hunter2@db/iceberg", "sqlite:////absolute/c.db", "sqlite:///:memory:"])
def test_other_sql_uris_stay_as_they_are(tmp_path, uri):
    catalog = loaded(tmp_path, {"catalog": {"uri": uri, "warehouse": "s3://w/h"}, **with_feed()}).catalog

    assert (catalog.uri, catalog.warehouse) == (uri, "s3://w/h")
    assert "hunter2" not in repr(catalog)


# ---- changefeeds together


def test_ddl_comes_from_a_changefeed_that_has_it(tmp_path):
    uri = "kafka://h/t?protocol=avro&enable-tidb-extension=true"
    avro = {"sink_uri": uri, "schema_registry": {"file": "r.json"}, "ddl_from": "ddl"}
    config = loaded(tmp_path, {"changefeeds": {"rows": avro, "ddl": {"sink_uri": "s3://b/p?protocol=canal-json"}}})

    assert config.changefeed("rows").schemas.ddl_from == "ddl"
    assert "carries DDL" in str(refused(tmp_path, {"changefeeds": {"rows": avro, "ddl": {**avro, "ddl_from": "rows"}}}))
    typo = {"changefeeds": {"rows": {**avro, "ddl_from": "ddll"}, "ddl": {"sink_uri": "s3://b/p?protocol=canal-json"}}}
    assert "Did you mean ddl?" in str(refused(tmp_path, typo))


def test_ddl_is_taken_only_where_rows_can_be_put_in_order_with_it(tmp_path):
    ddl = {"sink_uri": "s3://b/p?protocol=canal-json"}
    plain = {"sink_uri": "kafka://h/t?protocol=avro", "schema_registry": {"file": "r.json"}, "ddl_from": "ddl"}
    rows = {"sink_uri": "kafka://h/t?protocol=simple", "ddl_from": "ddl"}

    assert "enable-tidb-extension=true" in str(refused(tmp_path, {"changefeeds": {"rows": plain, "ddl": ddl}}))
    assert "carries its own statements" in str(refused(tmp_path, {"changefeeds": {"rows": rows, "ddl": ddl}}))


def test_changefeeds_do_not_share_control_tables(tmp_path):
    one = {"sink_uri": "s3://b/p?protocol=csv"}

    assert "control namespace" in str(refused(tmp_path, {"changefeeds": {"shop": one, "Shop": one}}))
    shared = {**one, "target": {"control": "ticdc"}}
    assert "control namespace" in str(refused(tmp_path, {"changefeeds": {"one": shared, "two": shared}}))


@pytest.mark.parametrize("name", ["report #1", "why?", "a%41", "50%25 off"])
def test_a_folder_that_a_uri_cannot_spell_is_refused_by_name(tmp_path, name):
    folder = tmp_path / name
    folder.mkdir()
    char = name[name.index("%") :][:3] if "%" in name else "#" if "#" in name else "?"

    text = str(refused(folder, with_feed()))
    assert text.count(f"expected a folder without {char}, which is part of a URI's syntax, found") == 2
    assert f"{folder}/lake/warehouse" in text
    for catalog in ({"warehouse": f"../{name}"}, {"warehouse": f"file://{folder}"}, {"uri": f"sqlite:///{name}/c.db"}):
        if not (name == "why?" and "uri" in catalog):  # what follows is the query of the URI
            elsewhere = {"type": "sql", "uri": "sqlite:///c.db", "warehouse": "w", **catalog}
            assert "a URI" in str(refused(tmp_path, {"catalog": elsewhere, **with_feed()}))


@pytest.mark.parametrize(
    "name", ["100% real", "it's", "a+b", "a&b;c", "[x]", "{x}", "*", "a\\b", "é", "😀", "a:b", "a@b"]
)
def test_a_folder_of_any_other_name_is_taken(tmp_path, name):
    folder = tmp_path / name
    folder.mkdir()

    assert loaded(folder, with_feed()).catalog.warehouse == f"{folder}/lake/warehouse"


def test_a_worker_that_is_given_a_config_imports_no_pydantic():
    code = "import sys, ticdc_assets.config; sys.exit('pydantic' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
