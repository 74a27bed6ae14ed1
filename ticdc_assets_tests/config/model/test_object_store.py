"""`object_store`: one block for every library, and for every bucket of the same store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ticdc_assets.config import Config, StorageSource
from ticdc_assets.config.model.object_store import StoreType
from ticdc_assets.config.model.sink import Storage
from ticdc_assets_tests.config.config_file import loaded, refused, with_feed

MINIO = {
    "endpoint": "http://127.0.0.1:9000",
    "region": "eu-west-1",
    "access_key": {"env": "KEY"},
    "secret_key": {"env": "SECRET"},
}
ENVIRON = {"KEY": "AKIA", "SECRET": "hunter2"}


def opened(folder: Path, store: dict[str, Any], environ: dict[str, str] | None = None, **feed: Any) -> Config:
    text = {"catalog": {"warehouse": "s3://lake/w"}, "object_store": store, **with_feed(**feed)}
    return loaded(folder, text, **(ENVIRON if environ is None else environ))


def storage(config: Config) -> Storage:
    source = config.changefeed("shop").source
    assert isinstance(source, StorageSource)
    return source.storage


def test_each_library_is_given_the_store_under_its_own_names(tmp_path):
    config = opened(tmp_path, MINIO)

    both = {
        "s3.endpoint": "http://127.0.0.1:9000",
        "s3.access-key-id": "AKIA",
        "s3.secret-access-key": "hunter2",
    }
    python = {"s3.region": "eu-west-1", "s3.force-virtual-addressing": "false"}
    java = {
        "client.region": "eu-west-1",
        "s3.path-style-access": "true",
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
    }
    assert dict(config.catalog.pyiceberg_properties) == both | python
    assert dict(config.catalog.java_properties) == both | java
    assert dict(storage(config).options) == {
        "endpoint": "http://127.0.0.1:9000",
        "region": "eu-west-1",
        "force-path-style": "true",
        "access-key": "AKIA",
        "secret-access-key": "hunter2",
    }
    assert "hunter2" not in repr(config)


def test_what_a_catalog_or_a_source_says_itself_wins(tmp_path):
    config = loaded(
        tmp_path,
        {
            "catalog": {"warehouse": "s3://lake/w", "properties": {"s3.region": "us-east-1", "io-impl": "Mine"}},
            "object_store": MINIO,
            **with_feed(source={"storage": "s3://bucket/p?region=us-west-2"}),
        },
        **ENVIRON,
    )

    assert config.catalog.pyiceberg_properties["s3.region"] == "us-east-1"
    assert config.catalog.java_properties["io-impl"] == "Mine"
    assert storage(config).options["region"] == "us-west-2"
    assert storage(config).options["access-key"] == "AKIA"


@pytest.mark.parametrize(
    ("where", "options"),
    [
        ("s3://b/p?endpoint=http://elsewhere:9000", {"endpoint": "http://elsewhere:9000"}),
        ("/data/sink", {}),
        ("gs://b/p", {}),
    ],
)
def test_a_source_elsewhere_gets_nothing_of_the_store(tmp_path, where, options):
    config = opened(tmp_path, MINIO, source={"storage": where})

    assert dict(storage(config).options) == options


def test_a_source_with_credentials_of_its_own_gets_none_of_the_stores(tmp_path):
    own = {"access-key": "OTHER", "secret-access-key": {"env": "OTHER_SECRET"}}
    config = opened(
        tmp_path, {**MINIO, "session_token": "t"}, {**ENVIRON, "OTHER_SECRET": "x"},
        source={"storage": "s3://b/p?endpoint=http://127.0.0.1:9000/", "options": own},
    )  # fmt: skip

    found = storage(config).options
    assert (found["access-key"], found["secret-access-key"]) == ("OTHER", "x")
    assert "session-token" not in found
    assert found["region"] == "eu-west-1"


def test_large_messages_lie_in_the_same_store(tmp_path):
    claims = opened(tmp_path, MINIO, claim_check="s3://claims/x").changefeed("shop").large_rows.claim_check

    assert claims is not None
    assert claims.options["access-key"] == "AKIA"


def test_without_an_endpoint_the_store_is_addressed_as_amazons_own(tmp_path):
    config = opened(tmp_path, {"region": "eu-west-1"})

    assert dict(config.catalog.java_properties) == {
        "client.region": "eu-west-1",
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
    }
    assert dict(config.catalog.pyiceberg_properties) == {"s3.region": "eu-west-1"}


@pytest.mark.parametrize(("style", "python", "java"), [(True, "false", "true"), (False, "true", "false")])
def test_a_path_style_that_is_written_is_taken(tmp_path, style, python, java):
    catalog = opened(tmp_path, {**MINIO, "path_style": style}).catalog

    assert catalog.pyiceberg_properties["s3.force-virtual-addressing"] == python
    assert catalog.java_properties["s3.path-style-access"] == java


@pytest.mark.parametrize(
    ("warehouse", "block", "python", "java"),
    [
        (
            "gs://lake/w",
            {"endpoint": "http://127.0.0.1:4443"},
            {"gcs.service.host": "http://127.0.0.1:4443"},
            {"gcs.service.host": "http://127.0.0.1:4443", "io-impl": "org.apache.iceberg.gcp.gcs.GCSFileIO"},
        ),
        (
            "abfss://lake@shop.dfs.core.windows.net/w",
            {"account": "shop", "account_key": "hunter2"},
            {"adls.account-name": "shop", "adls.account-key": "hunter2"},
            {
                "adls.auth.shared-key.account.name": "shop",
                "adls.auth.shared-key.account.key": "hunter2",
                "io-impl": "org.apache.iceberg.azure.adlsv2.ADLSFileIO",
            },
        ),
        (
            "abfss://lake@shop.dfs.core.windows.net/w",
            {"account": "shop", "sas_token": "hunter2"},
            {"adls.account-name": "shop", "adls.sas-token": "hunter2"},
            {
                "adls.sas-token.shop.dfs.core.windows.net": "hunter2",
                "io-impl": "org.apache.iceberg.azure.adlsv2.ADLSFileIO",
            },
        ),
    ],
)
def test_the_type_is_that_of_the_warehouse(tmp_path, warehouse, block, python, java):
    catalog = loaded(tmp_path, {"catalog": {"warehouse": warehouse}, "object_store": block, **with_feed()}).catalog

    assert dict(catalog.pyiceberg_properties) == python
    assert dict(catalog.java_properties) == java
    assert "hunter2" not in repr(catalog)


def test_a_warehouse_that_is_a_name_lies_in_the_configured_store(tmp_path):
    catalog = {"type": "rest", "uri": "https://catalog", "warehouse": "main"}
    found = loaded(tmp_path, {"catalog": catalog, "object_store": {"type": "s3"}, **with_feed()}).catalog

    assert found.store_type is StoreType.S3
    assert "io-impl" not in found.java_properties  # by REST, Java chooses it by each file's URI


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ({"endpont": "http://h"}, "Did you mean endpoint?"),
        ({"type": "s4"}, "Write one of s3, gcs, azure."),
        ({"endpoint": "127.0.0.1:9000"}, "Write http://host:port"),
        ({"endpoint": "http://user:hunter2@host"}, "credentials have keys of their own"),
        ({"endpoint": "http://host:99999"}, "Write http://host:port"),
        ({"endpoint": "http://host:port"}, "Write http://host:port"),
        ({"endpoint": "http://host#bucket"}, "Write http://host:port"),
        ({"access_key": "a"}, "Add secret_key"),
        ({"secret_key": "a"}, "Add access_key"),
        ({"session_token": "a"}, "the access_key that it belongs to"),
        ({"path_style": "yes"}, "true or false"),
        ({"type": "gcs", "region": "x"}, "object_store.region"),
        ({"type": "azure", "account_key": "x"}, "the name of the storage account"),
        ({"type": "azure", "account": "a", "account_key": "x", "sas_token": "y"}, "Remove one of the two."),
        ("s3://bucket", "a mapping"),
    ],
)
def test_faults_of_the_block_are_reported(tmp_path, block, said):
    error = str(refused(tmp_path, {"object_store": block, **with_feed()}))

    assert said in error
    assert "hunter2" not in error


def test_a_store_that_is_not_the_warehouses_is_refused(tmp_path):
    values = {"catalog": {"warehouse": "s3://lake/w"}, "object_store": {"type": "gcs"}, **with_feed()}

    assert "expected s3, as in the URI of the warehouse, found gcs. Remove type:" in str(refused(tmp_path, values))


@pytest.mark.parametrize("wrong", [{"evn": "KEY"}, 3, {"env": "NOSUCH"}])
def test_a_key_with_a_fault_is_not_reported_as_missing_too(tmp_path, wrong):
    block = {"access_key": wrong, "secret_key": "s", "session_token": "t"}

    error = refused(tmp_path, {"object_store": block, **with_feed()})

    assert "object_store.access_key" in error.where
