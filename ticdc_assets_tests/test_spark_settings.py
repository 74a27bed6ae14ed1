"""What Spark is told of the catalog and of the machine; nothing here starts it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ticdc_assets.errors import ConfigError
from ticdc_assets.spark import catalog_conf
from ticdc_assets_tests.config.config_file import loaded, with_feed


def told(folder: Path, uri: str, **properties: str) -> dict[str, str]:
    """What Spark is told of an SQL catalog, without what the name of the catalog puts before it."""
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
    conf = told(tmp_path, uri)

    assert conf["uri"] == jdbc
    assert (conf.get("jdbc.user"), conf.get("jdbc.password")) == (user, password)


def test_properties_of_the_config_win(tmp_path: Path):
    conf = told(tmp_path, "postgresql://u:p@db/ice", **{"jdbc.user": "other"})

    assert (conf["jdbc.user"], conf["jdbc.password"]) == ("other", "p")


@pytest.mark.parametrize("uri", ["sqlite://", "sqlite:///:memory:"])
def test_a_database_in_memory_is_refused_since_spark_could_not_see_it(uri: str, tmp_path: Path):
    with pytest.raises(ConfigError, match="a database that Spark can open too"):
        told(tmp_path, uri)
