"""Catalogs of other products: AWS Glue as moto has it, and a Hive metastore."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from ticdc_assets_tests.pipeline.stores.life import World, live
from ticdc_assets_tests.services import hive
from ticdc_assets_tests.services.object_store import ACCESS_KEY, REGION, SECRET_KEY, s3_store

pytestmark = [pytest.mark.services, pytest.mark.spark, pytest.mark.matrix]

OF_PROCESS = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}


@contextmanager
def in_glue(folder: Path) -> Iterator[World]:
    """A lake in Glue. Iceberg's libraries take Glue's credentials from the environment."""
    with s3_store(folder) as store:
        properties = {"glue.region": REGION, "glue.endpoint": store.endpoint}
        catalog = {
            "name": "lake_glue",
            "type": "glue",
            "warehouse": f"s3://{store.bucket}/lake",
            "properties": properties,
        }
        blocks = {"catalog": catalog, "object_store": store.block}
        secrets = (SECRET_KEY,)
        yield World(folder, blocks, store.environment, secrets=secrets, views=False, of_process=OF_PROCESS)


@contextmanager
def in_hive(folder: Path) -> Iterator[World]:
    with hive.hive_metastore(folder) as uri:
        catalog = {"name": "lake_hive", "type": "hive", "uri": uri, "warehouse": f"{folder}/lake"}
        yield World(folder, {"catalog": catalog})


WITHOUT_HIVE = pytest.mark.skipif(bool(hive.missing()), reason=f"not on this machine: {', '.join(hive.missing())}")


@pytest.mark.parametrize("catalog", [in_glue, pytest.param(in_hive, marks=WITHOUT_HIVE)])
def test_a_lake_in_a_metastore_lives_as_one_in_sqlite(
    catalog: Callable[[Path], AbstractContextManager[World]], tmp_path: Path
):
    with catalog(tmp_path) as world:
        live(world)
