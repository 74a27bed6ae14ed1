"""A catalog in MySQL or MariaDB: its driver comes by itself, and two runs at once publish each change once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from ticdc_assets.failpoints import Failpoint
from ticdc_assets_tests.pipeline.stores.life import PUBLISHED, World, live, meet
from ticdc_assets_tests.services import mariadb, mysql
from ticdc_assets_tests.services.mysql_server import DATABASE, PASSWORD, USER

pytestmark = [pytest.mark.services, pytest.mark.matrix]

STARTED = {"mysql": mysql.mysql, "mariadb": mariadb.mariadb}
MISSING = {"mysql": mysql.missing(), "mariadb": mariadb.missing()}


@pytest.fixture(scope="module")
def port(request: pytest.FixtureRequest) -> Iterator[int]:
    if MISSING[request.param]:
        pytest.skip(f"not on this machine: {', '.join(MISSING[request.param])}")
    with STARTED[request.param]() as found:
        yield found


def world(folder: Path, port: int, name: str, dialect: str = "mysql") -> World:
    catalog = {"name": name, "uri": {"env": "CATALOG_URI"}, "warehouse": f"{folder}/lake"}
    uri = f"{dialect}+pymysql://{USER}:{quote(PASSWORD, safe='')}@127.0.0.1:{port}/{DATABASE}"
    return World(folder, {"catalog": catalog}, {"CATALOG_URI": uri}, secrets=(PASSWORD, quote(PASSWORD, safe="")))


@pytest.mark.spark
@pytest.mark.parametrize(
    ("port", "dialect"), [("mysql", "mysql"), ("mariadb", "mysql"), ("mariadb", "mariadb")], indirect=["port"]
)
def test_a_lake_in_mysql_or_mariadb_lives_as_one_in_sqlite(port: int, dialect: str, tmp_path: Path):
    live(world(tmp_path, port, f"lake_{dialect}", dialect))


@pytest.mark.parametrize("port", STARTED, indirect=True)
@pytest.mark.parametrize("failpoint", [Failpoint.CHANGELOGS_MADE, Failpoint.BEFORE_CHANGELOG_COMMIT])
def test_two_runs_at_once_publish_each_change_once(port: int, failpoint: Failpoint, tmp_path: Path):
    race = world(tmp_path, port, f"race_{failpoint.name.lower()}")
    race.configure()
    race = race.fill(race.tsos[-1])

    ends = meet(race, failpoint)

    assert [end for end in ends if end != PUBLISHED and "Another run published first" not in end] == []
    race.lake().publish()
    assert race.lake().lost_and_repeated() == (0, 0)
