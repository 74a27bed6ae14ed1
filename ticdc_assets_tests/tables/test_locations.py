"""Renames in a catalog that takes two steps for one, as Glue does: it registers the new name and drops the old one."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from pyiceberg.typedef import Identifier

from ticdc_assets.errors import TicdcAssetsError
from ticdc_assets.tables.catalog import KeepingSqlCatalog
from ticdc_assets_tests.pipeline.stores.life import World

RENAMES = 4
"""How many renames the swap of two changelogs takes."""


class TwoSteps:
    """Renames in two steps. The process ends within the rename of the given number."""

    def __init__(self, ends_in: int) -> None:
        self.ends_in, self.made = ends_in, 0

    def __call__(self, catalog: SqlCatalog, old: str | Identifier, new: str | Identifier) -> Table:
        self.made += 1
        catalog.register_table(new, catalog.load_table(old).metadata_location)
        if self.made == self.ends_in:
            raise TicdcAssetsError("the test", "a whole rename", "half of one", "Run again.")
        catalog.drop_table(old)
        return catalog.load_table(new)


@pytest.mark.parametrize("ends_in", range(1, RENAMES + 1))
def test_a_rename_that_ended_half_way_is_finished_by_the_next_run(
    ends_in: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    catalog = {"name": "lake", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"{tmp_path}/lake"}
    world = World(tmp_path, {"catalog": catalog}, views=False)
    world.configure()
    world = world.fill(world.tsos[0])
    world.lake().publish()
    world = world.fill(world.tsos[-1])
    steps = TwoSteps(ends_in)

    def rename(catalog: SqlCatalog, old: Identifier, new: Identifier) -> Table:
        return steps(catalog, old, new)

    monkeypatch.setattr(KeepingSqlCatalog, "rename_table", rename)

    with pytest.raises(TicdcAssetsError, match="half of one"):
        world.lake().publish()
    lake = world.lake()
    lake.publish()

    assert steps.made >= RENAMES
    assert lake.lost_and_repeated() == (0, 0)
    assert sorted(lake.lake.catalog.list_tables("shop__changes")) == [
        ("shop__changes", "swap_a2"),
        ("shop__changes", "swap_b2"),
    ]
