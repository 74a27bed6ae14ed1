"""A bucket in an object store is inspected: the lines to paste say how it was opened, without credentials."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ticdc_assets.cli import main
from ticdc_assets.config import StorageSource, load
from ticdc_assets.sources.filesystem import open_root
from ticdc_assets.sources.inspection import Bounds, inspect_source
from ticdc_assets.sources.inspection.settings import config_lines
from ticdc_assets_tests.fixtures import workloads
from ticdc_assets_tests.services.object_store import ACCESS_KEY, REGION, SECRET_KEY, s3_store

pytestmark = pytest.mark.services


def test_the_suggested_config_opens_the_store_with_credentials_of_its_own(tmp_path: Path, capsys: Any):
    with s3_store(tmp_path) as store:
        store.upload(workloads("storage-csv", "seed1")[0].root / "data", "shop")
        query = f"endpoint={store.endpoint}&region={REGION}&access-key={ACCESS_KEY}&secret-access-key={SECRET_KEY}"
        place = f"s3://{store.bucket}/shop?{query}"
        lines = config_lines(inspect_source(place, Bounds()))
        main(["inspect", place])
        printed = capsys.readouterr().out

        assert f"endpoint={store.endpoint}" in "".join(lines.split())
        assert SECRET_KEY not in lines + printed
        assert "The lines below have no credentials" in " ".join(printed.split())
        (tmp_path / "changefeeds.yaml").write_text(lines + yaml.safe_dump({"object_store": store.block}))
        source = load(tmp_path / "changefeeds.yaml", store.environment).changefeeds[0].source
        assert isinstance(source, StorageSource)
        assert "metadata" in {entry.name for entry in open_root(source.storage.uri).list_dir("")}
