"""Whether a table was set back, from the snapshots that it has."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table

from ticdc_assets.errors import SetBackError
from ticdc_assets.tables.maintenance.snapshot_expiry import expire
from ticdc_assets.tables.set_back import RecordedSnapshot

NAME = ("n", "t")


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    made = load_catalog("made", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w")
    made.create_namespace("n")
    made.create_table(NAME, pa.schema([("x", pa.int64())]))
    return made


def grown(catalog: Catalog, times: int = 1) -> Table:
    for number in range(times):
        catalog.load_table(NAME).append(pa.table({"x": [number]}))
    return catalog.load_table(NAME)


def recorded(table: Table) -> RecordedSnapshot:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return RecordedSnapshot(snapshot.snapshot_id, datetime.now(UTC))


def registered(catalog: Catalog, table: Table) -> Table:
    """The table as a catalog has it that somebody set back to this metadata file."""
    catalog.drop_table(NAME)
    return catalog.register_table(NAME, table.metadata_location)


def expired(catalog: Catalog) -> Table:
    """The table with its current snapshot alone."""
    expire(catalog, lambda: pytest.fail("no JVM"), catalog.load_table(NAME), (), datetime.now(UTC) + timedelta(hours=1))
    left = catalog.load_table(NAME)
    assert len(left.snapshots()) == 1
    return left


def test_a_table_that_goes_on_from_its_record_is_not_set_back(catalog: Catalog):
    named = recorded(grown(catalog, 2))

    assert not named.is_lost(catalog.load_table(NAME))
    assert not named.is_lost(grown(catalog, 3))


def test_an_older_metadata_file_is_a_table_that_was_set_back(catalog: Catalog):
    older = grown(catalog, 2)
    named = recorded(grown(catalog))

    with pytest.raises(SetBackError, match=r"n\.t: expected a table that goes on from snapshot .*register_table"):
        named.require_in(registered(catalog, older))


def test_rows_that_another_writer_appends_do_not_hide_that_a_table_was_set_back(catalog: Catalog):
    older = grown(catalog, 2)
    named = recorded(grown(catalog))
    registered(catalog, older)

    assert named.is_lost(grown(catalog, 3))


def test_a_table_that_was_rolled_back_is_told_which_snapshot_to_set(catalog: Catalog):
    first = recorded(grown(catalog)).snapshot_id
    named = recorded(grown(catalog))
    with catalog.load_table(NAME).manage_snapshots() as manage:
        manage.set_current_snapshot(first)

    with pytest.raises(SetBackError, match=rf"make {named.snapshot_id} its current snapshot again"):
        named.require_in(catalog.load_table(NAME))
    assert named.is_lost(grown(catalog))


def test_a_table_that_was_created_again_is_one_that_was_set_back(catalog: Catalog):
    named = recorded(grown(catalog))
    catalog.drop_table(NAME)
    catalog.create_table(NAME, pa.schema([("x", pa.int64())]))

    assert named.is_lost(catalog.load_table(NAME))
    assert named.is_lost(grown(catalog))


@pytest.mark.parametrize("later", [1, 3])
def test_a_recorded_snapshot_that_was_expired_is_not_set_back(catalog: Catalog, later: int):
    named = recorded(grown(catalog, 2))
    grown(catalog, later)

    assert not named.is_lost(expired(catalog))


def test_an_older_metadata_file_whose_own_snapshots_were_expired_is_set_back(catalog: Catalog):
    grown(catalog, 3)
    older = expired(catalog)
    named = recorded(grown(catalog))

    assert named.is_lost(registered(catalog, older))
    assert named.is_lost(grown(catalog, 2))


def test_a_catalog_that_was_restored_together_with_its_record_is_not_set_back(catalog: Catalog):
    older = grown(catalog, 2)
    named = recorded(older)
    grown(catalog)

    assert not named.is_lost(registered(catalog, older))
