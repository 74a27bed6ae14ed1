"""A catalog in a TiDB server that TICDC_ASSETS_TIDB names (host:port, user root without a password)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ticdc_assets.failpoints import Failpoint
from ticdc_assets_tests.pipeline.stores.life import PUBLISHED, World, live, meet
from ticdc_assets_tests.tidb.server import SERVER, Session

pytestmark = [
    pytest.mark.services,
    pytest.mark.matrix,
    pytest.mark.skipif(not SERVER, reason="TICDC_ASSETS_TIDB names no TiDB server"),
]


@pytest.fixture
def database(request: pytest.FixtureRequest) -> Iterator[str]:
    """A database of its own for each test, with a binary collation."""
    name = "lake_" + "".join(c if c.isalnum() else "_" for c in request.node.name)[:40]
    session = Session("mysql", "UTC", "")
    session.run(f"DROP DATABASE IF EXISTS `{name}`")
    session.run(f"CREATE DATABASE `{name}` COLLATE utf8mb4_bin")
    yield name
    session.run(f"DROP DATABASE `{name}`")


def world(folder: Path, database: str) -> World:
    catalog = {"name": database, "uri": {"env": "CATALOG_URI"}, "warehouse": f"{folder}/lake"}
    return World(folder, {"catalog": catalog}, {"CATALOG_URI": f"mysql+pymysql://root@{SERVER}/{database}"})


@pytest.mark.spark
def test_a_lake_in_tidb_lives_as_one_in_sqlite(database: str, tmp_path: Path):
    live(world(tmp_path, database))


@pytest.mark.parametrize("failpoint", [Failpoint.CHANGELOGS_MADE, Failpoint.BEFORE_CHANGELOG_COMMIT])
def test_two_runs_at_once_publish_each_change_once(database: str, failpoint: Failpoint, tmp_path: Path):
    race = world(tmp_path, database)
    race.configure()
    race = race.fill(race.tsos[-1])

    ends = meet(race, failpoint)

    assert [end for end in ends if end != PUBLISHED and "Another run published first" not in end] == []
    race.lake().publish()
    assert race.lake().lost_and_repeated() == (0, 0)
