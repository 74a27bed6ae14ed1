"""A catalog that keeps parsed metadata: it reads no file twice, and misses no commit of another process."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError

from ticdc_assets.tables import catalog as catalog_module
from ticdc_assets.tables.catalog import KeepingSqlCatalog, KeptMetadata

T = ("shop", "t")
ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})


def opened(folder: Path, of: type[SqlCatalog] = KeepingSqlCatalog) -> SqlCatalog:
    return of("lake", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}/lake")


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    made = opened(tmp_path)
    made.create_namespace("shop")
    made.create_table(T, ROWS.schema, properties={"commit.retry.num-retries": "0"})
    return made


def test_metadata_that_this_process_read_or_wrote_is_not_read_again(
    catalog: SqlCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    catalog.load_table(T).append(ROWS)
    monkeypatch.setattr(catalog_module, "read", lambda *_: pytest.fail("read again"))

    table = catalog.load_table(T)

    assert len(table.snapshots()) == 1
    assert table.refresh().scan().to_arrow().num_rows == 2


def test_kept_metadata_of_a_commit_is_what_its_file_says(catalog: SqlCatalog, tmp_path: Path):
    table = catalog.load_table(T)
    with table.transaction() as tx:
        tx.set_properties({"owner": "é"})
        tx.append(ROWS, snapshot_properties={"ticdc.watermark": "5"})

    assert catalog.load_table(T).metadata == opened(tmp_path, SqlCatalog).load_table(T).metadata


def test_a_commit_of_another_process_is_seen_and_refuses_an_older_one(catalog: SqlCatalog, tmp_path: Path):
    mine = catalog.load_table(T)
    other = opened(tmp_path).load_table(T)

    other.append(ROWS)

    assert len(catalog.load_table(T).snapshots()) == 1
    with pytest.raises(CommitFailedException), mine.transaction() as tx:
        tx.append(ROWS)
    other.catalog.drop_table(T)
    with pytest.raises(NoSuchTableError):
        catalog.load_table(T)


def test_a_table_that_was_made_again_has_its_own_metadata(catalog: SqlCatalog):
    before = catalog.load_table(T).metadata.table_uuid
    catalog.drop_table(T)
    catalog.create_table(T, ROWS.schema)

    assert catalog.load_table(T).metadata.table_uuid != before


def test_metadata_of_the_tables_that_were_used_longest_ago_is_forgotten(catalog: SqlCatalog):
    table = catalog.load_table(T)
    table.append(ROWS)
    kept = KeptMetadata(snapshots_max=2)

    for name in ("a", "b"):
        kept.keep("shop", name, f"{name}.json", table.metadata)
    assert kept.get("shop", "a") == ("a.json", table.metadata)
    kept.keep("shop", "c", "c.json", table.metadata)

    assert kept.get("shop", "b") is None
    assert kept.get("shop", "a") == ("a.json", table.metadata)


def test_metadata_of_another_process_share_the_snapshots_that_are_known(catalog: SqlCatalog, tmp_path: Path):
    mine = catalog.load_table(T)
    mine.append(ROWS)
    opened(tmp_path).load_table(T).append(ROWS)

    found = catalog.load_table(T).metadata

    assert found == opened(tmp_path, SqlCatalog).load_table(T).metadata
    assert found.snapshots[0] is mine.metadata.snapshots[0]


@pytest.mark.parametrize("form", ["v1", "v0"])
def test_a_view_is_no_table(tmp_path: Path, form: str):
    """Catalogs that older versions made have no column that says which of the two a row is."""
    if form == "v0":
        with sqlite3.connect(tmp_path / "c.db") as database:
            names = ("catalog_name", "table_namespace", "table_name", "metadata_location", "previous_metadata_location")
            columns = ", ".join(f"{name} VARCHAR(255)" for name in names)
            database.execute(f"CREATE TABLE iceberg_tables ({columns})")
            database.execute(
                "CREATE TABLE iceberg_namespace_properties "
                "(catalog_name TEXT, namespace TEXT, property_key TEXT, property_value TEXT)"
            )
    catalog = opened(tmp_path)
    catalog.create_namespace("shop")
    catalog.create_table(T, ROWS.schema)
    catalog.load_table(T).append(ROWS)

    assert catalog.load_table(T).scan().to_arrow().num_rows == 2
    if form == "v1":
        with sqlite3.connect(tmp_path / "c.db") as database:
            database.execute("UPDATE iceberg_tables SET iceberg_type = 'VIEW'")
        with pytest.raises(NoSuchTableError):
            catalog.load_table(T)
