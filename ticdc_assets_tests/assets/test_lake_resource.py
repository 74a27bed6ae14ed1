"""A user's own assets read changelogs at a recorded TSO; `documentation/test_readers.py` reads mirrors, with Spark."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import dagster as dg
import duckdb
import pandas as pd
import pyarrow as pa
import pytest

from ticdc_assets.assets.keys import FeedNames
from ticdc_assets.assets.lake_resource import LakeIOManager, LakeResource
from ticdc_assets.errors import ConfigError, MachineError, NotYetError
from ticdc_assets.pipeline.recorded.lake import RecordedTable
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.small_feeds import Sink

ORDERS = ("shop", "orders")
NAMES = FeedNames("feed", "canal-json")
CHANGES = NAMES.changelog(*ORDERS)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> FeedLake:
    """Two changes up to TSO 150, a third up to 200, and a fourth that is published, but not in a complete record."""
    folder = tmp_path_factory.mktemp("lake")
    sink = Sink(folder / "bucket")
    sink.table(ORDERS)
    lake = None
    for number, (checkpoint, ids) in enumerate(((150, (1, 2)), (200, (3,)), (250, (4,))), start=1):
        sink.file(ORDERS, number, [sink.insert(ORDERS, checkpoint - 40 + i, i, f"row {i}") for i in ids])
        sink.bucket.checkpoint(checkpoint)
        lake = lake or sink.feed(folder / "lake").lake
        lake.publish()
        if checkpoint < 250:
            assert lake.complete_tso() == checkpoint
    assert lake is not None
    assert lake.lake.catalog.load_table(("shop__changes", "orders")).scan().to_arrow().num_rows == 4
    return lake


@pytest.fixture
def lake(made: FeedLake) -> LakeResource:
    return LakeResource(config_path=str(made.config.path))


def ids(rows: pa.Table) -> list[int]:
    return sorted(rows["id"].to_pylist())


def test_a_table_is_read_at_a_recorded_tso_and_not_at_its_newest_snapshot(made: FeedLake, lake: LakeResource):
    at_150 = LakeResource(config_path=str(made.config.path), at="150")

    assert ids(lake.changelog("shop.orders").to_arrow()) == [1, 2, 3]
    assert ids(lake.changelog("shop.orders", at=199).to_arrow()) == [1, 2]
    assert ids(at_150.changelog("shop.orders").to_arrow()) == [1, 2]
    assert (lake.recorded().tso, at_150.recorded().tso, lake.recorded().tables) == (200, 150, ("shop.orders",))


def test_columns_and_rows_that_are_not_asked_for_are_left_out(lake: LakeResource):
    found = lake.changelog("SHOP.orders").to_arrow(["id", "name"], "id > 1 AND name <> 'row 3'")

    assert found.to_pylist() == [{"id": 2, "name": "row 2"}]


def test_rows_come_in_the_form_of_each_engine(lake: LakeResource):
    changes = lake.changelog("shop.orders")

    assert sorted(changes.to_duckdb(["id"]).fetchall()) == [(1,), (2,), (3,)]
    with duckdb.connect() as connection:
        assert changes.to_duckdb(where="id = 3", connection=connection).count("*").fetchall() == [(1,)]
    assert sorted(changes.to_pandas()["id"]) == [1, 2, 3]
    assert ids(changes.scan(["id"]).to_arrow()) == [1, 2, 3]
    assert changes.to_pyiceberg().name() == changes.identifier


def test_an_engine_that_is_not_installed_is_named(lake: LakeResource, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "polars", None)

    with pytest.raises(MachineError, match="no module polars"):
        lake.changelog("shop.orders").to_polars()


def test_a_table_or_column_that_does_not_exist_is_refused_with_those_that_do(lake: LakeResource):
    with pytest.raises(ConfigError, match=r"expected a source table shop.order at TSO 200, found shop.orders"):
        lake.changelog("shop.order")
    with pytest.raises(ConfigError, match=r"expected columns of .*id, name.*, found nam. Correct `columns`"):
        lake.changelog("shop.orders").to_arrow(["id", "nam"])
    for where in ("nam = 'x'", "id >", "id = 'x"):
        with pytest.raises(ConfigError, match="where: expected a condition in SQL on "):
            lake.changelog("shop.orders").to_arrow(where=where)
    with pytest.raises(NotYetError, match="up to 149, found 150 as the first one"):
        lake.changelog("shop.orders", at=149)


def test_a_config_with_several_changefeeds_needs_a_name(tmp_path: Path):
    path = tmp_path / "changefeeds.yaml"
    feed = '{sink_uri: "file:///x?protocol=canal-json&enable-tidb-extension=true"}'
    path.write_text(f"changefeeds: {{one: {feed}, two: {feed}}}\n")

    with pytest.raises(ConfigError, match="expected one changefeed, found one, two"):
        LakeResource(config_path=str(path)).mirror("shop.orders")
    with pytest.raises(NotYetError, match="expected a complete record"):
        LakeResource(config_path=str(path), changefeed="two").mirror("shop.orders")
    assert not (tmp_path / "lake").exists()


def test_a_config_that_is_not_there_is_one_sentence_with_the_setting_to_correct(tmp_path: Path):
    path = tmp_path / "none.yaml"
    with pytest.raises(ConfigError, match=r"none\.yaml: expected .* file or directory\. Correct config_path of the re"):
        LakeResource(config_path=str(path)).mirror("shop.orders")


def test_no_representation_shows_the_config(lake: LakeResource):
    assert "sink" not in repr(lake.changelog("shop.orders")) + repr(lake.recorded())


# -- as an input -------------------------------------------------------------------------------------------------------


def loaded(lake: LakeResource, annotation: Any, key: dg.AssetKey = CHANGES, **metadata: Any) -> Any:
    """What an asset gets as its input."""
    found: list[Any] = []

    def downstream(changes: Any) -> None:
        found.append(changes)

    downstream.__annotations__["changes"] = annotation
    ins = {"changes": dg.AssetIn(key=key, input_manager_key="lake_io", metadata=metadata)}
    asset = dg.asset(ins=ins)(downstream)
    dg.materialize([asset, dg.AssetSpec(key)], resources={"lake_io": LakeIOManager(lake=lake)}, selection=[asset])
    return found[0]


@pytest.mark.parametrize(
    ("annotation", "rows"),
    [(pa.Table, len), (pd.DataFrame, len), (duckdb.DuckDBPyRelation, lambda found: len(found.fetchall()))],
)
def test_an_input_has_the_form_of_its_annotation(annotation: Any, rows: Any, lake: LakeResource):
    found = loaded(lake, annotation, columns=["id"], where="id < 3")

    assert isinstance(found, annotation)
    assert rows(found) == 2


def test_an_input_without_annotation_is_the_recorded_table(lake: LakeResource):
    found = loaded(lake, Any)

    assert isinstance(found, RecordedTable)
    assert found.tso == 200


def test_an_input_of_another_type_or_table_is_refused(lake: LakeResource):
    with pytest.raises(ConfigError, match="input changes: expected RecordedTable or pyarrow's Table,"):
        loaded(lake, set)
    with pytest.raises(ConfigError, match="expected an input that is one of its tables, found other"):
        loaded(lake, pa.Table, dg.AssetKey("other"))


def test_it_stores_no_output(lake: LakeResource):
    @dg.asset(io_manager_key="lake_io")
    def stored() -> int:
        return 1

    with pytest.raises(ConfigError, match="expected an asset without this I/O manager"):
        dg.materialize([stored], resources={"lake_io": LakeIOManager(lake=lake)})
