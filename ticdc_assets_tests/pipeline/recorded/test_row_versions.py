"""The versions of rows, compared with the true rows at every snapshot of recorded streams."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from ticdc_assets.errors import ConfigError, NotYetError
from ticdc_assets.pipeline.history import passes
from ticdc_assets.pipeline.history.tables import version_after
from ticdc_assets.pipeline.recorded.row_versions import RecordedHistory
from ticdc_assets.pipeline.recorded.table import RecordedTable
from ticdc_assets.tso import to_datetime
from ticdc_assets_tests.assets.feeds import Feed, ts
from ticdc_assets_tests.assets.feeds import without_java as without_java
from ticdc_assets_tests.fixtures import CORPUS, Workload
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.truth import comparable, truth_rows, truth_types

MORE = ("storage-csv", "open", "simple-json", "simple-avro", "storage-csv-special", "storage-canal-json-tidb-restart")


def histories(lake: Any) -> dict[str, RecordedHistory | str]:
    """The history of each table with a changelog, or why there is none, by source table."""
    found: dict[str, RecordedHistory | str] = {}
    source_tables = lake.history().by_id()
    for table in lake.control.newest().tables:
        if table.changelog is None:
            continue
        try:
            changelog = RecordedTable(lake, tuple(table.changelog), table.changelog_snapshot_id, table.watermark)
            found[table.source_table] = RecordedHistory(changelog, source_tables[table.source_table])
        except ConfigError as error:
            found[table.source_table] = str(error)
    return found


def rows_at(history: RecordedHistory, rows: pa.Table, at: int, names: list[str]) -> Counter[tuple[Any, ...]]:
    ends = rows["_ticdc_valid_to"]
    is_open = pc.or_(pc.is_null(ends), pc.fill_null(pc.greater(ends, at), False))
    rows = rows.filter(pc.and_(pc.less_equal(rows["_ticdc_valid_from"], at), is_open))
    there = {c.name: history.column_of.get(c.uid) for c in version_after(history.source_table, at).table.columns}
    columns = [rows[there[name]].to_pylist() if there[name] else [None] * len(rows) for name in names]
    return Counter(tuple(comparable(cell) for cell in row) for row in zip(*columns, strict=True))


@pytest.mark.parametrize("variant", ["canal-json-tidb", *(pytest.param(v, marks=pytest.mark.matrix) for v in MORE)])
def test_rows_at_every_recorded_snapshot_are_those_of_the_truth(variant: str, tmp_path: Path):
    workload = Workload(CORPUS / "fixtures" / variant / "seed1")
    lake = FeedLake(workload, tmp_path)
    lake.publish()
    found = histories(lake.lake)
    read = {i: h.to_arrow() for i, h in found.items() if isinstance(h, RecordedHistory)}
    compared, closed = 0, 0
    for entry in workload.truth:
        named = lake.lake.history().ever_called(entry["schema"], entry["table"])
        table = next(t for t in named if t.name_at(entry["ts"]) == (entry["schema"], entry["table"]))
        history = found.get(table.id, "")
        if isinstance(history, str) or table.dropped_ts is not None:
            continue
        rows = rows_at(history, read[table.id], entry["ts"], list(truth_types(entry)))
        assert rows == truth_rows(entry, workload.time_zone), (entry["table"], entry["ts"])
        compared += len(entry["rows"])
        closed += pc.sum(pc.invert(read[table.id]["_ticdc_is_current"])).as_py() or 0
    assert compared
    assert closed


@pytest.fixture
def feed(tmp_path: Path, without_java: None) -> Feed:
    feed = Feed(tmp_path).table("shop", "users")
    feed.rows("shop", "users", ("I", 1, "ann", 2), ("I", 2, "bob", 3), ("U", 1, "eve", 5), ("D", 2, "bob", 8))
    return feed


def versions(feed: Feed, *names: str) -> list[tuple[Any, ...]]:
    [history] = histories(feed.lake).values()
    assert isinstance(history, RecordedHistory), history
    names = names or ("id", "name", "_ticdc_valid_from", "_ticdc_valid_to", "_ticdc_is_current")
    rows = history.to_arrow(list(names)).sort_by([("id", "ascending"), ("_ticdc_valid_from", "ascending")])
    return [tuple(row.values()) for row in rows.to_pylist()]


EXPECTED = [
    (1, "ann", ts(2), ts(5), False),
    (1, "eve", ts(5), None, True),
    (2, "bob", ts(3), ts(8), False),
]


def test_parts_of_the_keys_give_the_same_rows_and_times_are_those_of_the_tsos(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
):
    feed.checkpoint(10).run()
    assert versions(feed) == EXPECTED
    monkeypatch.setattr(passes, "HELD_BYTES_MAX", 150)

    [history] = histories(feed.lake).values()
    assert isinstance(history, RecordedHistory)
    assert len(list(history.parts())) > 1
    assert versions(feed) == EXPECTED
    [(_, from_time, _, to_time), *_] = versions(
        feed, "_ticdc_valid_from", "_ticdc_valid_from_time", "id", "_ticdc_valid_to_time"
    )
    assert (from_time, to_time) == (to_datetime(ts(2)), to_datetime(ts(5)))


def test_late_rows_are_at_their_commit_ts(feed: Feed):
    feed.checkpoint(10).run()
    feed.rows("shop", "users", ("U", 1, "amy", 4)).checkpoint(11).run()

    assert versions(feed) == [
        (1, "ann", ts(2), ts(4), False),
        (1, "amy", ts(4), ts(5), False),
        *EXPECTED[1:],
    ]


def test_a_truncate_ends_all_rows_and_a_default_fills_those_that_exist(feed: Feed):
    feed.statement("shop", "users", "TRUNCATE TABLE `users`", 17, type_=11)
    feed.rows("shop", "users", ("I", 7, "ida", 18)).checkpoint(20).run()

    assert versions(feed)[1:] == [
        (1, "eve", ts(5), ts(17), False),
        EXPECTED[2],
        (7, "ida", ts(18), None, True),
    ]


def test_a_table_without_changes_has_no_versions(tmp_path: Path, without_java: None):
    feed = Feed(tmp_path).table("shop", "users").checkpoint(10)
    feed.run()

    assert versions(feed) == []


def test_columns_and_snapshots_that_are_not_there_are_errors(feed: Feed):
    feed.checkpoint(10).run()

    [history] = histories(feed.lake).values()
    assert isinstance(history, RecordedHistory)
    gone = replace(history, changelog=replace(history.changelog, snapshot_id=7))
    with pytest.raises(NotYetError, match="maintenance has removed it"):
        gone.to_arrow()

    with pytest.raises(ConfigError, match=r"shop.users: expected columns of _ticdc_valid_from, .* found nam. Correct"):
        versions(feed, "id", "nam")
