"""Which mirrors are behind, planned from changelogs and mirrors with real Iceberg metadata."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table

from ticdc_assets.notes import Note, NoteCode
from ticdc_assets.pipeline.commit_range import TableState
from ticdc_assets.pipeline.mirror.pending import blocked_tables, pending_work
from ticdc_assets.pipeline.plan import Plan
from ticdc_assets.schema.history.fold.events import fold
from ticdc_assets.schema.history.source_table import History
from ticdc_assets.schema.history.written_history import effects_digest
from ticdc_assets.tables.iceberg.properties import COLUMNS, EFFECTS, REPLAYED, SOURCE_TABLE, VERSION
from ticdc_assets.tables.progress import Progress, columns_property
from ticdc_assets.tables.replayed import Replayed
from ticdc_assets_tests.pipeline.mirror.pending_feed import ADD, CREATE, ROW, Feed
from ticdc_assets_tests.pipeline.mirror.pending_feed import feed as feed
from ticdc_assets_tests.schema.history.histories import event


def test_a_new_mirror_takes_every_version_up_to_the_watermark_of_its_table(feed: Feed):
    changelog = feed.changelog(ROW, (21, 1, 20))

    [work] = feed.work()

    assert (work.source_table.id, work.watermark, work.is_new) == (feed.id, 50, True)
    assert (work.planned, work.replayed, work.must_be_rebuilt, work.damage) == (Progress(), None, False, None)
    assert work.changelog.name() == changelog.name()
    assert work.place == feed.lake.table_locations(feed.history)[feed.id]
    assert [(part.low, part.high) for part in work.segments] == [(10, 20), (20, 50)]
    assert [[part.high for part in work.segments] for work in feed.work(feed.record(watermark=15))] == [[15]]


def test_a_mirror_that_is_behind_goes_on_from_its_progress(feed: Feed):
    feed.changelog(ROW, (21, 1, 20), watermark=50)
    feed.mirror(watermark=20)

    [work] = feed.work()

    assert (work.is_new, work.planned) == (False, Progress(20, 0, "merged"))
    assert [(part.low, part.high) for part in work.segments] == [(20, 50)]


def test_a_mirror_that_has_all_changes_and_statements_has_nothing_to_do(feed: Feed):
    feed.changelog(ROW)
    feed.mirror()

    assert feed.work() == []


@pytest.mark.parametrize(
    "changes",
    [
        {"watermark": 0},
        {"watermark": 9},
        {"notes": (Note(NoteCode.LATE_STATEMENT, "it"),)},
        {"source_table": "shop.t@7"},
    ],
    ids=["no watermark", "before its creation", "its changelog is invalid", "not recorded"],
)
def test_a_table_that_its_changelog_cannot_serve_yet_has_nothing_to_do(feed: Feed, changes: dict[str, Any]):
    feed.changelog(ROW)

    assert feed.work(feed.record(**changes)) == []


def test_a_table_without_a_key_has_nothing_to_do(feed: Feed):
    feed.history = fold([event(10, "t", "CREATE TABLE `t` (`id` INT)")])
    feed.changelog(ROW)

    assert feed.work() == []


def test_a_table_without_a_changelog_of_its_own_has_nothing_to_do(feed: Feed):
    assert feed.work() == []
    feed.changelog(ROW, **{SOURCE_TABLE: "shop.t@7"})
    assert feed.work() == []


def test_a_table_of_another_source_table_is_not_its_mirror(feed: Feed):
    """The writer refuses it, so that it is not overwritten."""
    feed.changelog(ROW)
    feed.mirror(**{SOURCE_TABLE: "shop.t@7"})

    assert [work.is_new for work in feed.work()] == [True]


def test_only_the_wanted_tables_are_planned(feed: Feed):
    feed.changelog(ROW)

    assert len(feed.work(only=[feed.id])) == 1
    assert feed.work(only=["shop.other@5"]) == []
    assert feed.work(only=[]) == []


def test_a_dropped_table_whose_mirror_goes_is_planned_only_where_an_exchange_awaits_it(tmp_path: Path):
    feed = Feed(tmp_path, on_drop="drop")
    feed.changelog(ROW)
    dropped = feed.record(state="dropped")

    assert feed.work(dropped) == []
    assert len(feed.work(dropped, awaited=[feed.id])) == 1
    assert len(feed.work()) == 1


def test_the_mirror_of_a_dropped_table_is_planned_where_it_stays(feed: Feed):
    feed.changelog(ROW)

    assert len(feed.work(feed.record(state="dropped"))) == 1


def test_the_error_of_one_table_is_said_of_it_and_the_others_are_planned(feed: Feed, monkeypatch: pytest.MonkeyPatch):
    feed.changelog(ROW)
    history = feed.history
    feed.history = fold([event(10, "u", CREATE.replace("`t`", "`u`"))])
    feed.changelog(ROW)
    [u], [t] = feed.history.source_tables, history.source_tables
    both = History((t, u))
    record = feed.record()
    record = replace(record, tables=(*record.tables, replace(record.tables[0], source_table=t.id)))
    load = feed.lake.catalog.load_table
    monkeypatch.setattr(feed.lake.catalog, "load_table", _failing_for("t", load))
    plan, errors = Plan.of(feed.lake, record, both), dict[str, Note]()

    assert [work.source_table.id for work in pending_work(feed.lake, plan, errors=errors)] == [u.id]
    assert list(errors) == [t.id]
    with pytest.raises(OSError, match="no such disk"):
        pending_work(feed.lake, plan)


def _failing_for(name: str, load: Callable[[Any], Table]) -> Callable[[Any], Table]:
    def loaded_or_failed(identifier: Any) -> Table:
        if name in identifier[-1]:
            raise OSError("no such disk")
        return load(identifier)

    return loaded_or_failed


# -- what comes below a mirror's progress -----------------------------------------------------------------------------


def test_a_mark_of_late_changes_is_work_until_the_mirror_has_merged_it(feed: Feed):
    mark = Replayed("late", 11, 10)
    feed.changelog(ROW, **{REPLAYED: mark.to_json()})
    mirror = feed.mirror()

    assert [(work.replayed, work.segments) for work in feed.work()] == [(mark, ())]
    with mirror.transaction() as change:
        change.set_properties({REPLAYED: "late"})
    assert feed.work() == []


def test_by_arrival_a_mirror_is_rebuilt_where_changes_came_of_a_version_that_it_has_passed(tmp_path: Path):
    """Its segments only bring it to its next version. By commit_ts, a mark says where late changes are."""
    changes = (ROW, (21, 1, 20), (12, 2, 10), (22, 3, 20))
    (tmp_path / "by arrival").mkdir()
    feed = Feed(tmp_path / "by arrival", sink_uri="file:///b?protocol=canal-json")
    other = Feed(tmp_path)
    for one in (feed, other):
        one.changelog(*changes, watermark=60, position=3)
        one.mirror(watermark=60, position=1)

    [work] = feed.work(feed.record(watermark=60))

    assert work.must_be_rebuilt
    assert [part.files for part in work.segments] == [()]
    assert other.work(other.record(watermark=60)) == []


# -- damage -----------------------------------------------------------------------------------------------------------

SET_BACK = "found those of 20: the mirror was rolled back to an earlier snapshot"
[TABLE] = fold([event(10, "t", CREATE), event(20, "t", ADD)]).source_tables
GONE = {column.uid: [99 if column.name == "v" else 1] for column in TABLE.newest.columns}
DAMAGE: list[tuple[str, dict[str, str], str]] = [
    ("an earlier snapshot", {VERSION: "30"}, SET_BACK),
    ("other statements", {EFFECTS: "others"}, "found a statement that arrived after newer rows were merged"),
    ("a column that is gone", {COLUMNS: columns_property(GONE)}, "expected its columns, found none for v: it was"),
]


@pytest.mark.parametrize(("_what", "properties", "sentence"), DAMAGE, ids=[case[0] for case in DAMAGE])
def test_a_damaged_mirror_is_left_as_it_is_and_named_once(
    feed: Feed, _what: str, properties: dict[str, str], sentence: str
):
    feed.changelog(ROW, (51, 1, 20), watermark=60)
    mirror = feed.mirror(watermark=50)
    _merged_as_of_20(mirror)
    with mirror.transaction() as change:
        change.set_properties(properties)

    [work] = feed.work(feed.record(watermark=60))

    assert work.damage is not None
    assert sentence in work.damage.detail
    assert work.damage.text("shop.t").endswith("`ticdc-assets rebuild --table shop.t` rebuilds it.")
    assert (work.segments, work.watermark, work.is_new) == ((), 60, False)
    assert feed.work(feed.record(watermark=60, notes=(work.damage,))) == []


def _merged_as_of_20(mirror: Table) -> None:
    empty = mirror.schema().as_arrow().empty_table()
    mirror.append(empty, snapshot_properties={**Progress(50, 0).summary("feed", Progress()), VERSION: "20"})


def test_a_mirror_with_its_columns_and_the_effects_of_its_statements_is_sound(feed: Feed):
    feed.changelog(ROW)
    digest = effects_digest(feed.history.source_tables[0], 20)
    feed.mirror(**{EFFECTS: digest, COLUMNS: columns_property({0: [1], 1: [2, 99]})})

    assert feed.work() == []


@pytest.mark.parametrize(("changed_at", "is_damaged"), [(20, False), (21, True)])
def test_a_statement_that_came_after_newer_rows_were_merged_damages_the_mirror(
    feed: Feed, changed_at: int, is_damaged: bool
):
    """The mirror's version is that at 10, and its rows are beyond the statement at 20."""
    feed.changelog(ROW)
    feed.mirror((changed_at, 0, 10), **{VERSION: "10"})

    [work] = feed.work()

    assert bool(work.damage) is is_damaged


# -- the recorded TSO -------------------------------------------------------------------------------------------------


def test_waiting_and_stopped_tables_hold_back_the_recorded_tso(feed: Feed):
    [record] = feed.record().tables
    every = [replace(record, state=str(state)) for state in TableState]

    assert [table.state for table in blocked_tables(every)] == ["waiting", "stopped"]
