"""Source bucket and warehouse in an S3 store, both by the one block `object_store`."""

from __future__ import annotations

from pathlib import Path

import pytest

from ticdc_assets_tests.pipeline.stores.life import World, live
from ticdc_assets_tests.services.object_store import SECRET_KEY, s3_store

pytestmark = [pytest.mark.services, pytest.mark.spark]


@pytest.mark.long
def test_a_lake_in_s3_lives_as_one_in_a_folder(tmp_path: Path):
    with s3_store(tmp_path) as store:
        catalog = {
            "name": "lake_s3",
            "uri": f"sqlite:///{tmp_path}/catalog.db",
            "warehouse": f"s3://{store.bucket}/lake",
        }
        blocks = {"catalog": catalog, "object_store": store.block}

        live(World(tmp_path, blocks, store.environment, source=store, secrets=(SECRET_KEY,)))

        assert any(path.endswith(".parquet") for path in store.files("lake"))
    assert SECRET_KEY not in (tmp_path / "changefeeds.yaml").read_text()
