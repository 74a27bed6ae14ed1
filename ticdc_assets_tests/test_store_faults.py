"""Answers of a real object store that end a run, as sentences that name the bucket and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from ticdc_assets.errors import SourceError
from ticdc_assets.faults import redacted_error
from ticdc_assets.sources.filesystem import open_root
from ticdc_assets_tests.services.object_store import ACCESS_KEY, REGION, SECRET_KEY, S3Store, s3_store

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Store]:
    with s3_store(tmp_path_factory.mktemp("store")) as found:
        yield found


def test_a_warehouse_in_a_bucket_that_is_not_there_is_named(store: S3Store) -> None:
    with pytest.raises(OSError) as caught, store.filesystem.open_output_stream("nowhere/lake/1.json") as stream:
        stream.write(b"{}")

    assert str(redacted_error(caught.value)) == (
        "the bucket nowhere: expected an answer of the object store, found NO_SUCH_BUCKET. Make the bucket, or correct "
        "catalog.warehouse. Then run again; no partial result is visible."
    )


def test_a_source_in_a_bucket_that_is_not_there_leads_to_its_name(store: S3Store, tmp_path: Path) -> None:
    query = {"endpoint": store.endpoint, "region": REGION, "access-key": ACCESS_KEY, "secret-access-key": SECRET_KEY}
    with pytest.raises(SourceError) as caught:
        open_root(f"s3://nowhere/prefix?{urlencode(query)}").list_dir("")

    assert "found NO_SUCH_BUCKET. Check the name of the bucket and the endpoint of its store." in str(caught.value)
    assert SECRET_KEY not in str(caught.value)
