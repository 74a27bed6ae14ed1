"""The settings of Spark for the catalog and the machine. No test here starts Spark."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets.errors import ConfigError
from ticdc_assets.spark import LazySparkWorkers, workers_of
from ticdc_assets.spark.settings import catalog_conf, for_a_long_session, session_conf
from ticdc_assets_tests.config.config_file import loaded, with_feed


def sql_catalog_conf(folder: Path, uri: str, **properties: str) -> dict[str, str]:
    """Spark's settings of an SQL catalog, by their names after the prefix of the catalog."""
    catalog: dict[str, Any] = {"name": "lake", "type": "sql", "uri": uri, "warehouse": "w", "properties": properties}
    conf = catalog_conf(loaded(folder, {"catalog": catalog, **with_feed()}))
    return {name.removeprefix("spark.sql.catalog.lake."): value for name, value in conf.items()}


@pytest.mark.parametrize(
    ("uri", "jdbc", "user", "password"),
    [
        ("postgresql+psycopg2://u:p%40ss@db:5432/ice", "jdbc:postgresql://db:5432/ice", "u", "p@ss"),
        ("postgresql://db/ice?sslmode=require", "jdbc:postgresql://db/ice?sslmode=require", None, None),
        ("mysql+pymysql://u@db/ice", "jdbc:mysql://db/ice", "u", None),
        ("sqlite:////lake/c.db", "jdbc:sqlite:/lake/c.db?busy_timeout=30000", None, None),
        ("sqlite+pysqlite:////lake/c.db?timeout=5", "jdbc:sqlite:/lake/c.db?busy_timeout=30000", None, None),
    ],
)
def test_java_opens_the_database_that_python_opens(
    uri: str, jdbc: str, user: str | None, password: str | None, tmp_path: Path
):
    conf = sql_catalog_conf(tmp_path, uri)

    assert conf["uri"] == jdbc
    assert (conf.get("jdbc.user"), conf.get("jdbc.password")) == (user, password)


def rest_catalog_conf(folder: Path, **properties: str) -> dict[str, str]:
    catalog = {"name": "lake", "type": "rest", "uri": "http://h", "properties": properties}
    return catalog_conf(loaded(folder, {"catalog": catalog, **with_feed()}))


@pytest.mark.parametrize(
    ("properties", "exchanges"),
    [
        ({"credential": "id:secret"}, "false"),
        ({"credential": "id:secret", "token-exchange-enabled": "true"}, "true"),
        ({"token": "t"}, None),
    ],
)
def test_java_logs_in_again_for_a_new_token(properties: dict[str, str], exchanges: str | None, tmp_path: Path):
    conf = rest_catalog_conf(tmp_path, **properties)

    assert conf.get("spark.sql.catalog.lake.token-exchange-enabled") == exchanges


def spark_conf(folder: Path, **conf: str) -> dict[str, str]:
    return session_conf(loaded(folder, {"spark": {"conf": conf}, **with_feed()}))


JAVA_OPTIONS = "spark.driver.extraJavaOptions"


def test_java_of_a_long_session_optimises_as_early_as_by_default(tmp_path: Path):
    config = loaded(tmp_path, with_feed())
    short, long = session_conf(config), session_conf(for_a_long_session(config))

    assert "Tier4" in short.pop(JAVA_OPTIONS)
    assert "Tier4" not in long.pop(JAVA_OPTIONS)
    assert short == long


def test_a_long_session_keeps_the_options_and_secrets_of_the_config(tmp_path: Path):
    conf = {JAVA_OPTIONS: "-Xss4m", "spark.own.pass": "abc"}
    config = loaded(tmp_path, {"spark": {"conf": conf}, **with_feed()})
    long = for_a_long_session(config)

    assert session_conf(long)[JAVA_OPTIONS] == "-Xss4m"
    assert long.spark.conf.hidden == config.spark.conf.hidden


def test_packages_that_are_sent_are_on_the_import_path_of_the_process_that_starts_workers(tmp_path: Path):
    sent = {"spark.submit.pyFiles": "dist/a.zip, hdfs://h/b.egg", "spark.executorEnv.PYTHONPATH": "/own"}

    assert spark_conf(tmp_path, **sent)["spark.executorEnv.PYTHONPATH"] == "a.zip:b.egg:/own"
    assert "spark.executorEnv.PYTHONPATH" not in spark_conf(tmp_path)


def test_a_wheel_that_python_would_not_import_from_is_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"found 'dist/a\.whl'\. Copy a wheel to a name that ends in \.zip"):
        spark_conf(tmp_path, **{"spark.submit.pyFiles": "dist/a.whl"})


def test_properties_of_the_config_win(tmp_path: Path):
    conf = sql_catalog_conf(tmp_path, "postgresql://u:p@db/ice", **{"jdbc.user": "other"})

    assert (conf["jdbc.user"], conf["jdbc.password"]) == ("other", "p")


@pytest.mark.parametrize("uri", ["sqlite://", "sqlite:///:memory:"])
def test_a_database_in_memory_is_refused_since_spark_could_not_see_it(uri: str, tmp_path: Path):
    with pytest.raises(ConfigError, match="a database that Spark can open too"):
        sql_catalog_conf(tmp_path, uri)


# -- packages ----------------------------------------------------------------------------------------------------------

SQLITE, POSTGRESQL, AWS = "sqlite-jdbc", "postgresql", "iceberg-aws-bundle"


@pytest.mark.parametrize(
    ("blocks", "more"),
    [
        ({}, [SQLITE]),
        ({"catalog": {"uri": "postgresql+psycopg2://db/ice"}}, [POSTGRESQL]),
        ({"catalog": {"uri": "mysql+pymysql://db/ice", "warehouse": "s3://b/w"}}, ["mysql-connector-j", AWS]),
        ({"catalog": {"uri": "oracle://db/ice"}}, []),
        ({"catalog": {"warehouse": "gs://b/w"}}, [SQLITE, "iceberg-gcp-bundle"]),
        ({"catalog": {"warehouse": "abfss://c@a.dfs.core.windows.net/w"}}, [SQLITE, "iceberg-azure-bundle"]),
        ({"catalog": {"type": "rest", "uri": "http://h"}}, []),
        ({"catalog": {"type": "rest", "uri": "http://h"}, "object_store": {"type": "s3"}}, [AWS]),
        ({"catalog": {"type": "rest", "uri": "http://h", "properties": {"rest.sigv4-enabled": True}}}, [AWS]),
        ({"catalog": {"type": "glue"}}, [AWS]),
        ({"object_store": {"type": "s3"}}, [SQLITE]),
    ],
)
def test_java_is_given_what_the_catalog_and_its_store_need(blocks: dict[str, Any], more: list[str], tmp_path: Path):
    packages = session_conf(loaded(tmp_path, {**blocks, **with_feed()}))["spark.jars.packages"].split(",")

    assert [package.split(":")[1] for package in packages] == ["iceberg-spark-runtime-4.1_2.13", *more]
    assert all(package.count(":") == 2 for package in packages)


def test_a_package_that_the_user_names_is_taken_in_that_version(tmp_path: Path):
    spark = {"conf": {"spark.jars.packages": "org.postgresql:postgresql:42.7.9, a:b:1"}}
    blocks = {"catalog": {"uri": "postgresql://db/ice"}, "spark": spark}

    packages = session_conf(loaded(tmp_path, {**blocks, **with_feed()}))["spark.jars.packages"].split(",")

    assert packages[1:] == ["org.postgresql:postgresql:42.7.9", "a:b:1"]


@pytest.mark.parametrize(
    "name", ["s3.access-key-id", "s3.secret-access-key", "jdbc.password", "adls.auth.shared-key.account.key", "token"]
)
def test_spark_shows_no_credential_in_its_settings(name: str, tmp_path: Path):
    pattern = session_conf(loaded(tmp_path, with_feed()))["spark.redaction.regex"]

    assert re.search(pattern, f"spark.sql.catalog.lake.{name}")


# -- where Spark runs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("master", "bound"), [("local[*]", True), ("local", True), ("spark://host:7077", False)])
def test_only_a_spark_on_this_machine_is_bound_to_it(master: str, bound: bool, tmp_path: Path):
    conf = session_conf(loaded(tmp_path, {"spark": {"master": master}, **with_feed()}))

    assert ("spark.driver.host" in conf, "spark.driver.bindAddress" in conf) == (bound, bound)


@pytest.mark.parametrize(("master", "is_spark"), [("local[*]", False), ("local", False), ("spark://host:7077", True)])
def test_work_that_needs_no_java_is_done_by_spark_only_in_a_cluster(master: str, is_spark: bool, tmp_path: Path):
    config = loaded(tmp_path, {"spark": {"master": master}, **with_feed()})

    assert isinstance(workers_of(config, 2), LazySparkWorkers) == is_spark
