"""What a mirror has left to merge, planned from a changelog of real Iceberg metadata."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from ticdc_assets.changes.layout import SYSTEM_COLUMNS
from ticdc_assets.pipeline.mirror.segments import before_newer, came_late, reached_position, segments
from ticdc_assets.schema.history.fold.events import fold
from ticdc_assets.schema.history.source_table import SourceTable
from ticdc_assets.tables.iceberg.properties import BORN, VERSION
from ticdc_assets.tables.mirror.exchanged_rows import with_exchange
from ticdc_assets.tables.mirror.writer import Segment
from ticdc_assets.tables.progress import Progress
from ticdc_assets_tests.schema.history.histories import event

CREATE, ADD = "CREATE TABLE `t` (`id` INT NOT NULL PRIMARY KEY)", "ALTER TABLE `t` ADD COLUMN `v` INT"
File = Sequence[tuple[int, int, int]]
"""The changes of a file: commit_ts, position and table version of each."""


class Lake:
    """A changelog, and the mirrors that tests give it."""

    def __init__(self, folder: Path) -> None:
        self._catalog = SqlCatalog("lake", uri="sqlite:///:memory:", warehouse=f"file://{folder}")
        self._catalog.create_namespace("shop")

    def changelog(
        self, *files: File, watermark: int = 0, position: int = -1, properties: dict[str, str] | None = None
    ) -> Table:
        return self.more(self._table("log", properties), *files, watermark=watermark, position=position)

    def more(self, table: Table, *files: File, watermark: int = 0, position: int = -1) -> Table:
        """The changes of another run."""
        for file in files:
            changes = [("I", commit_ts, None, seq, version) for commit_ts, seq, version in file]
            table.append(
                pa.Table.from_arrays(
                    [pa.array(c) for c in zip(*changes, strict=True)], schema=table.schema().as_arrow()
                )
            )
        return self._published(table, watermark, position)

    def mirror(self, version: int, *, born: int = 10, watermark: int = 0, position: int = -1) -> Table:
        return self._published(self._table("mirror", {VERSION: str(version), BORN: str(born)}), watermark, position)

    def drop_mirror(self) -> None:
        self._catalog.drop_table(("shop", "mirror"))

    def _table(self, name: str, properties: dict[str, str] | None = None) -> Table:
        return self._catalog.create_table(("shop", name), pa.schema(SYSTEM_COLUMNS), properties=properties or {})

    @staticmethod
    def _published(table: Table, watermark: int, position: int) -> Table:
        nothing = table.schema().as_arrow().empty_table()
        table.append(nothing, snapshot_properties=Progress(watermark, position).summary("feed", Progress()))
        return table


def without_manifests(table: Table) -> None:
    """Remove the manifests of a changelog, as if nobody could read them."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    for manifest in snapshot.manifests(table.io):
        table.io.delete(manifest.manifest_path)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def source_table(*statements: str) -> SourceTable:
    """A table with these statements at the TSOs 10, 20 and so on."""
    [made] = fold(event(10 * n, "t", text) for n, text in enumerate(statements, 1)).source_tables
    return made


def planned(found: Iterator[Segment]) -> list[tuple[int, int, int, int, list[tuple[int, int]]]]:
    """Version, bounds and watermark of each segment, and where its files begin and end."""
    return [
        (part.version.from_ts, part.low, part.high, part.watermark, [(file.first, file.last) for file in part.files])
        for part in found
    ]


def test_a_new_mirror_takes_each_version_up_to_the_statement_after_it(lake: Lake):
    """A change with the commit_ts of a statement is of the version before it."""
    changelog = lake.changelog([(11, 0, 10), (20, 1, 10)], [(21, 2, 20), (25, 3, 20)], watermark=50)

    assert planned(segments(source_table(CREATE, ADD), changelog, None, 40, by_arrival=False)) == [
        (10, 10, 20, 20, [(11, 20)]),
        (20, 20, 40, 40, [(21, 25)]),
    ]


def test_a_mirror_takes_what_is_after_its_watermark(lake: Lake):
    changelog = lake.changelog([(11, 0, 10), (12, 1, 10)], [(13, 2, 10)], [(21, 3, 20)], watermark=30)
    mirror = lake.mirror(10, watermark=12)

    assert planned(segments(source_table(CREATE, ADD), changelog, mirror, 30, by_arrival=False)) == [
        (10, 12, 20, 20, [(13, 13)]),
        (20, 20, 30, 30, [(21, 21)]),
    ]


def test_versions_before_that_of_the_mirror_are_over(lake: Lake):
    changelog = lake.changelog([(11, 0, 10)], [(21, 1, 20)], watermark=30)
    mirror = lake.mirror(20, watermark=20)

    assert planned(segments(source_table(CREATE, ADD), changelog, mirror, 30, by_arrival=False)) == [
        (20, 20, 30, 30, [(21, 21)])
    ]


def test_a_statement_is_a_segment_also_without_changes(lake: Lake):
    changelog = lake.changelog(watermark=20)
    mirror = lake.mirror(10, watermark=20)

    assert planned(segments(source_table(CREATE, ADD), changelog, mirror, 20, by_arrival=False)) == [
        (20, 20, 20, 20, [])
    ]
    assert planned(segments(source_table(CREATE, ADD), changelog, mirror, 19, by_arrival=False)) == []


@pytest.mark.parametrize("by_arrival", [False, True])
def test_the_files_of_a_changelog_that_the_mirror_has_are_not_planned(
    lake: Lake, by_arrival: bool, monkeypatch: pytest.MonkeyPatch
):
    """A sensor asks this of every table each minute: manifests are read only where something is new."""
    changelog = lake.changelog([(11, 0, 10)], watermark=30, position=0)
    monkeypatch.setattr(Table, "scan", _must_not_be_asked)

    for watermark, position in ((30, 0), (31, 1)):
        mirror = lake.mirror(10, watermark=watermark, position=position)
        assert planned(segments(source_table(CREATE), changelog, mirror, 40, by_arrival)) == []
        lake.drop_mirror()


def _must_not_be_asked(*_: Any, **__: Any) -> Any:
    raise AssertionError("the changelog's files are planned")


def test_a_file_without_bounds_may_hold_any_change_that_is_pending(lake: Lake):
    """As of a writer that keeps no metrics of columns."""
    changelog = lake.changelog(
        [(11, 0, 10), (20, 1, 10)], watermark=30, properties={"write.metadata.metrics.default": "none"}
    )
    mirror = lake.mirror(10, watermark=12)

    assert planned(segments(source_table(CREATE), changelog, mirror, 30, by_arrival=False)) == [
        (10, 12, 30, 30, [(13, 30)])
    ]


def test_an_exchange_whose_rows_the_changelog_lacks_ends_the_plan(lake: Lake):
    parts = "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (9))"
    exchange = "ALTER TABLE `t` EXCHANGE PARTITION p0 WITH TABLE `u`"
    history = fold([
        event(9, "u", CREATE.replace("`t`", "`u`")),
        event(10, "t", f"{CREATE} {parts}"),
        event(20, "t", exchange),
    ])  # fmt: skip
    table = next(made for made in history.source_tables if made.name == ("shop", "t"))
    changelog = lake.changelog([(11, 0, 10)], [(21, 1, 20)], watermark=30)

    assert [part[0] for part in planned(segments(table, changelog, None, 30, by_arrival=False))] == [10]

    with changelog.transaction() as change:
        change.set_properties(with_exchange(changelog, 20))
    assert [part[0] for part in planned(segments(table, changelog, None, 30, by_arrival=False))] == [10, 20]


# -- by arrival -------------------------------------------------------------------------------------------------------


def test_by_arrival_each_version_takes_its_own_changes_and_ends_before_those_of_the_next(lake: Lake):
    changelog = lake.changelog([(11, 0, 10), (12, 1, 10)], [(21, 2, 20)], [(13, 3, 10)], watermark=40, position=3)

    assert planned(segments(source_table(CREATE, ADD), changelog, None, 40, by_arrival=True)) == [
        (10, -1, 3, 20, [(0, 1), (3, 3)]),
        (20, -1, 3, 40, [(2, 2)]),
    ]
    [first, second] = segments(source_table(CREATE, ADD), changelog, None, 40, by_arrival=True)
    assert (first.position, second.position) == (1, 3)


def test_by_arrival_a_mirror_stops_before_the_first_change_of_a_version_that_is_not_reached(lake: Lake):
    changelog = lake.changelog([(11, 0, 10)], [(21, 1, 20)], [(12, 2, 10)], watermark=15, position=2)
    table = source_table(CREATE, ADD)

    assert planned(segments(table, changelog, None, 15, by_arrival=True)) == [(10, -1, 0, 15, [(0, 0)])]
    assert reached_position(table, changelog, -1, 15) == 0
    assert reached_position(table, changelog, -1, 20) == 2


@pytest.mark.parametrize(
    ("version", "low", "high", "before"),
    [(10, -1, 3, 0), (10, 0, 3, 0), (10, 2, 3, 3), (10, -1, 0, 0), (20, -1, 3, 3), (10, 1, 3, 1), (10, 3, 3, 3)],
)
def test_a_mirror_stops_at_the_position_before_changes_of_a_newer_version(
    lake: Lake, version: int, low: int, high: int, before: int
):
    """A file that begins below the bounds may hold such a change right behind the lower one."""
    changelog = lake.changelog([(11, 0, 10)], [(21, 1, 20), (22, 2, 20)], [(12, 3, 10)], watermark=30, position=3)

    assert before_newer(changelog, version, low, high) == before


LATE: list[tuple[str, Callable[[Lake], Table], int, bool]] = [
    ("a change of the version before", lambda lake: lake.mirror(20, position=1), 30, True),
    ("nothing new", lambda lake: lake.mirror(20, position=2), 30, False),
    ("its first version is its own", lambda lake: lake.mirror(20, born=20, position=1), 30, False),
    ("it was born after that version", lambda lake: lake.mirror(30, born=20, position=1), 30, False),
    ("that version is its own", lambda lake: lake.mirror(10, position=1), 30, False),
]


@pytest.mark.parametrize(("_why", "mirror", "watermark", "late"), LATE, ids=[case[0] for case in LATE])
def test_changes_of_a_version_that_the_mirror_passed_came_late(
    lake: Lake, _why: str, mirror: Callable[[Lake], Table], watermark: int, late: bool
):
    changelog = lake.changelog([(11, 0, 10)], [(21, 1, 20)], [(12, 2, 10)], watermark=30, position=2)

    assert (
        came_late(source_table(CREATE, ADD, "ALTER TABLE `t` ADD COLUMN `w` INT"), changelog, mirror(lake), watermark)
        is late
    )


@pytest.mark.parametrize("by_arrival", [False, True])
def test_manifests_of_commits_that_the_mirror_has_are_not_read(lake: Lake, by_arrival: bool):
    table = lake.changelog([(11, 0, 10), (19, 1, 10)], watermark=20, position=1)
    without_manifests(table)
    table = lake.more(table, [(21, 2, 10), (29, 3, 10)], watermark=30, position=3)
    mirror = lake.mirror(10, watermark=20, position=1)

    [segment] = segments(source_table(CREATE), table, mirror, 30, by_arrival)

    assert sum(file.rows for file in segment.files) == 2


def test_a_mirror_that_is_several_commits_behind_gets_the_files_of_all_of_them(lake: Lake):
    table = lake.changelog([(11, 0, 10)], watermark=20, position=0)
    table = lake.more(table, [(21, 1, 10)], watermark=30, position=1)
    table = lake.more(table, [(31, 2, 10)], watermark=40, position=2)

    [segment] = segments(source_table(CREATE), table, lake.mirror(10, watermark=20, position=0), 40, False)

    assert [file.first for file in segment.files] == [21, 31]
