"""Runs that end between moving tables in the catalog and their record, and then another RENAME."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema

from ticdc_assets.failpoints import LISTENERS, Failpoint
from ticdc_assets.pipeline.plan import Plan
from ticdc_assets.pipeline.renamed_tables import rename_mirrors
from ticdc_assets.tables.iceberg.properties import SOURCE_TABLE
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.small_feeds import BrokenRunError
from ticdc_assets_tests.pipeline.small_streams import SmallStream, at, ids, shape

A, B, C, OTHER = shape("a"), shape("b"), shape("c"), shape("other")


@pytest.fixture
def stream(tmp_path: Path) -> SmallStream:
    made = SmallStream(tmp_path)
    for number, table in enumerate((A, OTHER)):
        made.create(1 + number, table)
        made.put(5, table, number)
    made.watermark(9)
    return made


@pytest.fixture
def broken() -> Iterator[None]:
    """Every run ends when its changelogs have their names."""

    def listen(moment: Failpoint) -> None:
        if moment is Failpoint.CHANGELOGS_MADE:
            raise BrokenRunError

    LISTENERS.append(listen)
    yield
    if listen in LISTENERS:
        LISTENERS.remove(listen)


def listed(lake: FeedLake, namespace: str) -> list[str]:
    if (namespace,) not in lake.lake.catalog.list_namespaces():
        return []
    return sorted(identifier[-1] for identifier in lake.lake.catalog.list_tables((namespace,)))


def mirror_of(lake: FeedLake, name: str, source_table: str) -> None:
    """A mirror as a run leaves it, and the record of it."""
    catalog: Catalog = lake.lake.catalog
    catalog.create_namespace_if_not_exists(("s",))
    catalog.create_table(("s", name), Schema(), properties={SOURCE_TABLE: source_table})


@pytest.mark.parametrize("last", [C, A], ids=["a third name", "back to the first"])
@pytest.mark.parametrize("cut", ["moved", "on the way"])
def test_a_table_is_found_under_every_name_it_had(
    stream: SmallStream, last: Any, cut: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
):
    lake = stream.lake()
    lake.publish()
    stream.rename(10, A, B)
    stream.put(11, B, 7)
    stream.watermark(19)
    with monkeypatch.context() as patch:
        if cut == "moved":
            request.getfixturevalue("broken")
        else:
            patch.setattr(SqlCatalog, "rename_table", _once(SqlCatalog.rename_table))
        with pytest.raises(BrokenRunError):
            lake.publish()
        LISTENERS.clear()
    assert "a" not in listed(lake, "s__changes")
    stream.rename(20, B, last)
    stream.put(21, last, 8)
    stream.watermark(29)

    lake.publish()

    assert listed(lake, "s__changes") == sorted([last.name, "other"])
    assert sorted(number for found in ids(lake).values() for number in found) == [0, 1, 7, 8]
    newest = lake.lake.control.newest()
    assert newest is not None
    assert {(t.table, t.state, t.watermark) for t in newest.tables} == {
        (last.name, "live", at(29)),
        ("other", "live", at(29)),
    }
    assert lake.publish() is None


def _once(rename: Any) -> Any:
    turns: list[Any] = []

    def renamed(*arguments: Any) -> Any:
        if turns:
            raise BrokenRunError
        turns.append(arguments)
        return rename(*arguments)

    return renamed


def test_a_mirror_that_was_moved_without_a_record_is_no_orphan(stream: SmallStream, broken: None):
    """The mirrors were moved, the record was not written; the next RENAME takes the mirror along."""
    lake = stream.lake()
    LISTENERS.clear()
    lake.publish()
    [source_table] = [n.id for n in lake.history.source_tables if n.name == ("s", "a")]
    mirror_of(lake, "a", source_table)
    for tick, before, after in ((10, A, B), (20, B, C)):
        stream.rename(tick, before, after)
        stream.watermark(tick + 9)
        lake.publish()
        rename_mirrors(lake.lake, Plan.of(lake.lake, lake.lake.control.newest(), lake.history))
        assert listed(lake, "s") == [after.name]
