"""A REST catalog: a warehouse by name, tokens, a store that the server names, and commits whose answer is lost."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets.errors import ConfigError, TicdcAssetsError
from ticdc_assets_tests.apart import apart
from ticdc_assets_tests.pipeline.stores.life import SECONDS_MAX, World, live
from ticdc_assets_tests.services.jars import missing_tools
from ticdc_assets_tests.services.object_store import ACCESS_KEY, REGION, SECRET_KEY, S3Store, s3_store
from ticdc_assets_tests.services.rest_catalog import TOKEN, Login, RestCatalog, rest_catalog

MISSING = missing_tools("java", "javac", "mvn")
pytestmark = [
    pytest.mark.services,
    pytest.mark.skipif(bool(MISSING), reason=f"not on this machine: {', '.join(MISSING)}"),
]


WITH_VIEWS = {"view-endpoints-supported": "true"}
"""How a server without a list of its endpoints says that it has views."""
WITH_TOKEN = {"token": TOKEN}
LOGIN = Login("ticdc:hunter2-of-the-lake", "PRINCIPAL_ROLE:ALL", seconds=10)


def behind(store: S3Store) -> dict[str, str]:
    """What the server itself needs of the store."""
    return {
        "warehouse": f"s3://{store.bucket}/lake",
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "client.region": REGION,
        "s3.access-key-id": ACCESS_KEY,
        "s3.secret-access-key": SECRET_KEY,
        **store_properties(store),
    }


def store_properties(store: S3Store) -> dict[str, str]:
    """Where the store is: clients hear it from the server alone."""
    return {"s3.endpoint": store.endpoint, "s3.path-style-access": "true"}


def logging_in(server: RestCatalog, credential: str = LOGIN.credential) -> dict[str, Any]:
    """The properties of a config that gets its tokens from the server."""
    tokens = {"oauth2-server-uri": f"{server.uri}/v1/oauth/tokens", "scope": LOGIN.scope}
    return {"credential": credential, **tokens}


def world(
    folder: Path,
    server: RestCatalog,
    name: str,
    properties: Mapping[str, Any] = WITH_TOKEN,
    warehouse: str | None = "main",
    publish: str = "each",
) -> World:
    catalog: dict[str, Any] = {"name": name, "type": "rest", "uri": server.uri, "properties": dict(properties)}
    if warehouse is not None:
        catalog["warehouse"] = warehouse
    store = {"region": REGION, "access_key": {"env": "KEY"}, "secret_key": {"env": "SECRET"}}
    environ = {"KEY": ACCESS_KEY, "SECRET": SECRET_KEY}
    secrets = (TOKEN, LOGIN.credential, SECRET_KEY)
    return World(folder, {"catalog": catalog, "object_store": store}, environ, secrets=secrets, publish=publish)


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize("publish", ["together", pytest.param("each", marks=pytest.mark.matrix)])
def test_a_lake_in_a_rest_catalog_lives_as_one_in_sqlite_and_longer_than_its_tokens(tmp_path: Path, publish: str):
    with s3_store(tmp_path) as store:
        of_clients = {**store_properties(store), **WITH_VIEWS, "prefix": "lakes"}
        with rest_catalog(tmp_path, behind(store), of_clients, "main", login=LOGIN) as server:
            live(world(tmp_path, server, "lake_rest", logging_in(server), publish=publish))
            assert ("transactions/commit 204" in server.log.read_text()) is (publish == "together")

        assert all("/lake/" in path for path in store.files("lake"))


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.matrix
@pytest.mark.parametrize("publish", ["together", "each"])
def test_commits_that_land_without_an_answer_are_neither_lost_nor_made_twice(tmp_path: Path, publish: str):
    folder = {"warehouse": f"file://{tmp_path}/lake"}
    with rest_catalog(tmp_path, folder, unknown_every=3) as server:
        environ = {"KEY": "k", "SECRET": "s"}
        blocks = world(tmp_path, server, "lake_lost").blocks
        lost = World(tmp_path, blocks, environ, views=False, publish=publish)

        apart(_go_on_after_faults, lost, seconds_max=SECONDS_MAX)

        assert server.requests("POST", 500) > 5


def _go_on_after_faults(lost: World) -> None:
    lost.configure()
    for ts in lost.tsos:
        lost = lost.fill(ts)
        for _ in range(20):
            try:
                lost.lake().run()
            except TicdcAssetsError as error:
                assert "run again" in str(error).lower()
                continue
            if lost.lake().is_complete_at(ts):
                break
        assert lost.lake().differences(ts) == []
    assert lost.lake().lost_and_repeated() == (0, 0)


@pytest.mark.long
@pytest.mark.spark
def test_a_server_without_views_is_named_and_everything_else_is_done(tmp_path: Path):
    with rest_catalog(tmp_path, {"warehouse": f"file://{tmp_path}/lake"}) as server:
        environ = {"KEY": "k", "SECRET": "s"}
        apart(
            _asks_for_views,
            World(tmp_path, world(tmp_path, server, "lake_no_views").blocks, environ),
            seconds_max=SECONDS_MAX,
        )


def _asks_for_views(asked: World) -> None:
    asked.configure()
    ts = asked.tsos[0]
    asked = asked.fill(ts)
    lake = asked.lake()
    with pytest.raises(
        ConfigError, match="expected one with Iceberg's views, since the config has `views`, found none"
    ):
        lake.run()
    assert lake.is_complete_at(ts)
    assert lake.differences(ts) == []


@pytest.mark.long
@pytest.mark.parametrize("server_login", [None, LOGIN], ids=["token", "login"])
def test_a_refusal_of_a_catalog_is_reported_without_a_secret(server_login: Login | None, tmp_path: Path):
    behind_it = {"warehouse": f"file://{tmp_path}/lake"}
    with rest_catalog(tmp_path, behind_it, warehouse="main", login=server_login) as server:
        refusals: list[tuple[dict[str, Any], str, str]] = [
            ({"token": "wrong"}, "main", "Unauthorized"),
            (WITH_TOKEN, "mian", "BadRequest"),
        ]
        if server_login is not None:
            refusals = [(logging_in(server, "ticdc:hunter3"), "main", "OAuth")]
        for properties, warehouse, said in refusals:
            refused = world(tmp_path, server, "lake_refused", properties, warehouse)
            refused.configure()
            refused.fill(refused.tsos[0])

            with pytest.raises(TicdcAssetsError, match=said) as caught:
                refused.lake().publish()

            assert not [secret for secret in (TOKEN, "hunter3") if secret in str(caught.value)]
