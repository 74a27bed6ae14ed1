"""Opening a catalog: the warehouse that it requests, and the error if a library is missing."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow.fs as pafs
import pytest

from ticdc_assets.errors import ConfigError
from ticdc_assets.schema.history.source_table import History
from ticdc_assets.tables.catalog import open_catalog
from ticdc_assets.tables.locations import table_locations
from ticdc_assets_tests.config.config_file import loaded, with_feed
from ticdc_assets_tests.fixtures import workloads
from ticdc_assets_tests.pipeline.lakes import FeedLake

ARN = "arn:aws:s3tables:eu-west-1:123456789012:bucket/lake"
REST = {"type": "rest", "uri": "https://catalog"}


@pytest.mark.parametrize(
    ("catalog", "warehouse"),
    [
        ({**REST, "warehouse": "main"}, "main"),
        ({**REST, "warehouse": ARN}, ARN),
        ({**REST, "warehouse": "123456789012"}, "123456789012"),
        ({**REST, "warehouse": "123456789012:s3tablescatalog/lake"}, "123456789012:s3tablescatalog/lake"),
        ({**REST, "warehouse": "s3://lake/w"}, "s3://lake/w"),
        ({"type": "glue", "warehouse": "main"}, "main"),
        ({"type": "sql", "warehouse": "w"}, "file://{folder}/w"),
        ({"type": "hive", "uri": "thrift://h:9083", "warehouse": "w"}, "file://{folder}/w"),
        (REST, None),
    ],
)
def test_a_catalog_is_asked_for_its_warehouse_as_it_calls_it(
    tmp_path: Path, catalog: dict[str, str], warehouse: str | None
):
    found = loaded(tmp_path, {"catalog": catalog, **with_feed()}).catalog

    assert found.iceberg_warehouse == (warehouse and warehouse.format(folder=tmp_path))


@pytest.mark.parametrize(
    ("catalog", "root"),
    [
        (REST, None),
        ({**REST, "warehouse": "main"}, None),
        ({**REST, "warehouse": ARN}, None),
        ({**REST, "warehouse": "s3://lake/w/"}, "s3://lake/w"),
        ({"type": "hive", "uri": "thrift://h:9083"}, None),
        ({"type": "glue"}, None),
    ],
)
def test_only_below_a_warehouse_that_is_an_address_tables_are_given_folders(
    tmp_path: Path, catalog: dict[str, str], root: str | None
):
    config = loaded(tmp_path, {"catalog": catalog, **with_feed()})

    found = table_locations(config, config.changefeed("shop"), _history(tmp_path))

    assert found
    for place in found.values():
        for location in (place.mirror_location, place.changelog_location):
            assert location is None if root is None else str(location).startswith(f"{root}/shop/")


def _history(folder: Path) -> History:
    lake = FeedLake(workloads("storage-csv-swapraw", "seed1")[0], folder / "lake")
    lake.publish()
    return lake.history


def test_a_driver_that_is_not_installed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "psycopg2", None)
    catalog = loaded(tmp_path, {"catalog": {"uri": "postgresql+psycopg2://u:hunter2@h/db"}, **with_feed()}).catalog

    with pytest.raises(ConfigError, match=r"no module psycopg2\. Run: pip install psycopg2-binary") as caught:
        open_catalog(catalog)
    assert "hunter2" not in str(caught.value)


def test_a_pyarrow_without_the_store_is_reported_before_anything_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delattr(pafs, "AzureFileSystem")
    warehouse = "abfss://lake@shop.dfs.core.windows.net/w"
    catalog = loaded(tmp_path, {"catalog": {"warehouse": warehouse}, **with_feed()}).catalog

    with pytest.raises(ConfigError, match="a pyarrow with AzureFileSystem, found one without"):
        open_catalog(catalog)
    assert not (tmp_path / "lake").exists()
