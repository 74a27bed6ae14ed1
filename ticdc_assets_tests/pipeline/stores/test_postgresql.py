"""A catalog in PostgreSQL: its driver comes by itself, and two runs at once publish each change once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from ticdc_assets.failpoints import Failpoint
from ticdc_assets_tests.pipeline.stores.life import PUBLISHED, World, live, meet
from ticdc_assets_tests.services.postgresql import PASSWORD, USER, missing, postgresql

pytestmark = [
    pytest.mark.services,
    pytest.mark.skipif(bool(missing()), reason=f"not on this machine: {', '.join(missing())}"),
]


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with postgresql() as found:
        yield found


def world(folder: Path, port: int, name: str, publish: str = "each") -> World:
    catalog = {"name": name, "uri": {"env": "CATALOG_URI"}, "warehouse": f"{folder}/lake"}
    uri = f"postgresql+psycopg2://{USER}:{quote(PASSWORD, safe='')}@127.0.0.1:{port}/postgres"
    secrets = (PASSWORD, quote(PASSWORD, safe=""))
    return World(folder, {"catalog": catalog}, {"CATALOG_URI": uri}, secrets=secrets, publish=publish)


@pytest.mark.spark
@pytest.mark.matrix
@pytest.mark.parametrize("publish", ["together", "each"])
def test_a_lake_in_postgresql_lives_as_one_in_sqlite(port: int, tmp_path: Path, publish: str):
    live(world(tmp_path, port, f"lake_pg_{publish}", publish))


@pytest.mark.parametrize("failpoint", [Failpoint.CHANGELOGS_MADE, Failpoint.BEFORE_CHANGELOG_COMMIT])
def test_two_runs_at_once_publish_each_change_once(port: int, failpoint: Failpoint, tmp_path: Path):
    race = world(tmp_path, port, f"race_{failpoint.name.lower()}")
    race.configure()
    race = race.fill(race.tsos[-1])

    ends = meet(race, failpoint)

    assert [end for end in ends if end != PUBLISHED and "Another run published first" not in end] == []
    race.lake().publish()
    assert race.lake().lost_and_repeated() == (0, 0)
