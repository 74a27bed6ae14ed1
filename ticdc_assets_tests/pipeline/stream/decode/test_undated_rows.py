"""Rows and statements without a commit_ts in a Canal-JSON stream whose others have one: their order is not known."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets.pipeline.replay.run import ReplayRequest, Resolution, replay
from ticdc_assets_tests.deliveries.database import Statement
from ticdc_assets_tests.deliveries.wires import CanalJson
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.small_streams import SmallStream, UndatedCanalJson, at, ids, shape, states, tso

A, B = shape("a"), shape("b")


def as_ticdc(message: dict[str, Any]) -> dict[str, Any]:
    return message


def as_canal(message: dict[str, Any]) -> dict[str, Any]:
    return {**message, "id": 7, "gtid": ""}


def with_null(message: dict[str, Any]) -> dict[str, Any]:
    return {**message, "_tidb": None}


def with_nothing_in_it(message: dict[str, Any]) -> dict[str, Any]:
    return {**message, "_tidb": {}}


@pytest.fixture
def stream(tmp_path: Path) -> SmallStream:
    made = SmallStream(tmp_path)
    for table in (A, B):
        made.create(1, table)
        made.put(2, table, 1)
    return made


def put_undated(stream: SmallStream, number: int, form: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    dated, stream.wire = stream.wire, Remade(form)
    stream.put(3, A, number)
    stream.wire = dated


class Remade(UndatedCanalJson):
    """Messages without the extension, in another form."""

    def __init__(self, form: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        super().__init__()
        self._form = form

    def rows(self, changes: Any) -> list[tuple[bytes | None, bytes | None]]:
        found = [(key, json.loads(value or b"")) for key, value in super().rows(changes)]
        return [(key, json.dumps(self._form(body), separators=(",", ":")).encode()) for key, body in found]


def quarantined(lake: FeedLake) -> list[Any]:
    return list(lake.lake.control.quarantined())


@pytest.mark.parametrize("form", [as_ticdc, as_canal, with_null, with_nothing_in_it])
def test_a_row_without_a_commit_ts_is_quarantined_and_all_others_are_read(stream: SmallStream, form: Any):
    put_undated(stream, 2, form)
    stream.put(4, A, 3)
    stream.watermark(5)
    lake = stream.lake()

    lake.publish()

    assert ids(lake) == {"a": [1, 3], "b": [1]}
    assert states(lake) == {"a": "live", "b": "live"}
    [bad] = quarantined(lake)
    assert (bad.path, bad.line) == ("feed/0", 4)
    assert "feed[0]@4: expected a commit_ts in _tidb.commitTs" in bad.reason
    assert "found none" in bad.reason
    assert "enable-tidb-extension=false here" in bad.reason
    assert "name 2" not in bad.reason


def test_rows_of_a_whole_batch_without_one_leave_the_watermark_to_the_others(stream: SmallStream):
    for number in range(2, 30):
        put_undated(stream, number, as_ticdc)
    lake = stream.lake(on_bad_message="quarantine_all")
    lake.publish()
    stream.watermark(5)
    lake.publish()
    before = tso(lake)
    put_undated(stream, 30, as_ticdc)
    stream.put(6, B, 2)
    stream.watermark(7)
    lake.publish()

    assert tso(lake) > before
    assert ids(lake) == {"a": [1], "b": [1, 2]}
    assert {bad.line for bad in quarantined(lake)} == {*range(4, 32), 33}


def test_a_row_without_a_commit_ts_is_still_bad_after_a_replay(stream: SmallStream):
    put_undated(stream, 2, as_ticdc)
    stream.watermark(5)
    lake = stream.lake()
    lake.publish()

    report = replay(lake.lake, ReplayRequest())

    [outcome] = report.outcomes
    assert outcome.resolution is Resolution.STILL_BAD
    assert "expected a commit_ts in _tidb.commitTs" in outcome.reason
    assert ids(lake) == {"a": [1], "b": [1]}


class UndatedStatements(CanalJson):
    """Rows with a commit_ts, statements without."""

    def statement(self, statement: Statement) -> tuple[bytes | None, bytes | None]:
        return UndatedCanalJson().statement(statement)


def in_one_millisecond(stream: SmallStream, query: str, after: Any = None) -> None:
    """A row of `a`, a statement on it and a row of `b` after that, all in one millisecond; later a row of each."""
    stream.put(3, A, 2)
    stream.wire = UndatedStatements()
    stream.ddl(3, query, A, after)
    stream.wire = CanalJson()
    stream.put(4, B, 2)
    stream.put(4, after or A, 3)
    stream.watermark(5)


@pytest.mark.parametrize(
    "query", ["TRUNCATE TABLE `s`.`a`", "DROP TABLE `s`.`a`", "ALTER TABLE `a` ADD COLUMN `n` INT"]
)
def test_a_statement_that_tells_its_millisecond_alone_holds_its_table_from_there(stream: SmallStream, query: str):
    """Dated behind all rows of its millisecond, a TRUNCATE took those with it that were inserted after it."""
    in_one_millisecond(stream, query)
    lake = stream.lake()

    lake.publish()

    assert states(lake) == {"a": "stopped", "b": "live"}
    assert ids(lake) == {"a": [1], "b": [1, 2]}
    note = lake.records()["s", "a"].note
    assert "expected a commit_ts in _tidb.commitTs of the statement" in note
    assert "enable-tidb-extension=false here" in note


def test_a_rename_that_tells_its_millisecond_alone_holds_the_table_under_both_names(stream: SmallStream):
    renamed = shape("c")
    in_one_millisecond(stream, "RENAME TABLE `s`.`a` TO `s`.`c`", renamed)
    lake = stream.lake()

    lake.publish()

    assert states(lake)["a"] == "stopped"
    assert ids(lake) == {"a": [1], "b": [1, 2]}
    assert "c" not in {name for name, state in states(lake).items() if state == "live"}


def test_a_statement_of_another_writer_is_not_put_by_its_second(stream: SmallStream):
    stream.put(3, A, 2)
    stream.wire = UndatedStatements()
    key, value = stream.wire.statement(Statement(at(3), "truncate table", "truncate a", A, A))
    stream.send("feed", 0, (key, json.dumps(as_canal(json.loads(value or b""))).encode()))
    stream.wire = CanalJson()
    stream.watermark(5)
    lake = stream.lake()

    lake.publish()

    assert states(lake) == {"a": "stopped", "b": "live"}
