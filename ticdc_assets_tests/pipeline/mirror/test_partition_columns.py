"""A mirror whose partition column leaves, is renamed or converted, or whose partition field has the name of a column,
follows the source: with its rows, its columns, its history, and its earlier snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets.failpoints import LISTENERS, Failpoint
from ticdc_assets_tests.pipeline.rebuild.rebuilt import rebuild, sql
from ticdc_assets_tests.pipeline.small_feeds import BrokenRunError, Feed, Sink, column
from ticdc_assets_tests.sources.storage.bucket import ID

pytestmark = pytest.mark.spark

Columns = dict[str, str]
DAYS = ("2020-01-01 00:00:00", "1969-12-31 23:59:59", "2020-01-02 10:00:00")
NUMBERS, TEXTS = (7, -1, 123456), ("alpha", "", "beta")


@dataclass(frozen=True)
class Step:
    """A statement, the columns after it, and the values after it: of rows 1 to 3, and of those that came later."""

    query: str
    columns: Columns
    values: tuple[Any, ...]
    of_later: tuple[Any, ...] = (None,)


@dataclass(frozen=True)
class Case:
    """A table whose column `c` has these values, how its mirror is partitioned, and what happens to it."""

    partition: str | list[str]
    columns: Columns
    values: tuple[Any, ...]
    steps: tuple[Step, ...]
    fields: frozenset[tuple[str, str]]
    """The transforms of the spec afterwards, with the names of their columns."""


def fields(*named: str) -> frozenset[tuple[str, str]]:
    return frozenset((text.partition(" ")[0], text.partition(" ")[2]) for text in named)


def dropped(partition: str | list[str], kind: str, values: tuple[Any, ...], left: frozenset[Any]) -> Case:
    step = Step("ALTER TABLE `{}` DROP COLUMN `c`", {}, ((), (), ()))
    return Case(partition, {"c": kind}, values, (step,), left)


def retyped(partition: str, old: str, new: str, values: tuple[Any, ...], after: tuple[Any, ...], left: Any) -> Case:
    step = Step(f"ALTER TABLE `{{}}` MODIFY COLUMN `c` {new}", {"c": new}, tuple((v,) for v in after))
    return Case(partition, {"c": old}, values, (step,), left)


def added(partition: str, name: str, values: tuple[Any, ...], kind: str, left: frozenset[Any]) -> Case:
    step = Step(
        f"ALTER TABLE `{{}}` ADD COLUMN `{name}` INT DEFAULT 5 AFTER `c`",
        {"c": kind, name: "INT"},
        tuple((v, 5) for v in values),
    )
    return Case(partition, {"c": kind}, values, (step,), left)


NONE = fields()
RENAMED = Step("ALTER TABLE `{}` RENAME COLUMN `c` TO `d`", {"d": "DATETIME"}, tuple((v,) for v in DAYS))
GONE = Step("ALTER TABLE `{}` DROP COLUMN `c`", {}, ((), (), ()))
BACK = Step("ALTER TABLE `{}` ADD COLUMN `c` DATETIME AFTER `id`", {"c": "DATETIME"}, ((None,), (None,), (None,)))
CASES = {
    **{f"drop_{t}": dropped(f"{t}(c)", "DATETIME", DAYS, NONE) for t in ("identity", "year", "month", "day", "hour")},
    "drop_bucket": dropped("bucket(3, c)", "INT", NUMBERS, NONE),
    "drop_truncate": dropped("truncate(2, c)", "VARCHAR", TEXTS, NONE),
    "drop_of_two": dropped(["day(c)", "bucket(2)"], "DATETIME", DAYS, fields("bucket[2] id")),
    "narrow": retyped("day(c)", "DATETIME", "DATE", DAYS, tuple(d[:10] for d in DAYS), fields("day c")),
    "unfit": retyped("hour(c)", "DATETIME", "DATE", DAYS, tuple(d[:10] for d in DAYS), NONE),
    "wide_bucket": retyped("bucket(3, c)", "INT", "BIGINT", NUMBERS, NUMBERS, fields("bucket[3] c")),
    "wide_identity": retyped("identity(c)", "INT", "BIGINT", NUMBERS, NUMBERS, fields("identity c")),
    "wide_truncate": retyped("truncate(5, c)", "INT", "BIGINT", NUMBERS, NUMBERS, fields("truncate[5] c")),
    "taken_day": added("day(c)", "c_day", DAYS, "DATETIME", fields("day c")),
    "taken_bucket": added("bucket(3)", "id_bucket", NUMBERS, "INT", fields("bucket[3] id")),
    "taken_trunc": added("truncate(2, c)", "c_trunc", TEXTS, "VARCHAR", fields("truncate[2] c")),
    "renamed": Case("day(c)", {"c": "DATETIME"}, DAYS, (RENAMED,), fields("day d")),
    "back": Case("day(c)", {"c": "DATETIME"}, DAYS, (GONE, BACK), fields("day c")),
    "name_taken": Case(
        "identity(c)",
        {"c": "DATETIME"},
        DAYS,
        (
            RENAMED,
            Step(
                "ALTER TABLE `{}` ADD COLUMN `c` INT DEFAULT 1 AFTER `d`",
                {"d": "DATETIME", "c": "INT"},
                tuple((v, 1) for v in DAYS),
                (None, 1),
            ),
        ),
        fields("identity c"),
    ),
}


IN_FORMAT_2 = ("drop_identity", "drop_of_two", "unfit", "wide_bucket", "taken_trunc", "renamed", "back", "name_taken")
IN_FORMAT_3 = (*(name for name in CASES if name not in IN_FORMAT_2), "drop_of_two", "name_taken")
WITH_HISTORY = ("drop_day", "wide_identity", "renamed", "back", "name_taken")
"""Partitions of a mirror are nothing to a history, which has its own: these have all kinds of statements."""


def columns_of(columns: Columns) -> list[dict[str, str]]:
    return [ID, *(column(name, kind) for name, kind in columns.items()), column("v", "VARCHAR")]


class Lake:
    """Cases in one lake. `rows` has the rows of each table by key."""

    def __init__(self, folder: Path, format_version: int, names: Sequence[str]) -> None:
        self.cases = {name: CASES[name] for name in names}
        self.sink = Sink(folder / "bucket", checkpoint=1000)
        self.rows: dict[str, dict[int, tuple[Any, ...]]] = {}
        self.version = dict.fromkeys(self.cases, 100)
        for name, case in self.cases.items():
            self.sink.table(("s", name), 100, columns_of(case.columns), create(name, case.columns))
            self.rows[name] = {k: (k, v, "a") for k, v in enumerate(case.values, start=1)}
            self.file(name, [self.sink.line(("s", name), "I", 200 + k, *row) for k, row in self.rows[name].items()])
        settings: dict[str, Any] = {"partition": {f"s.{name}": case.partition for name, case in self.cases.items()}}
        histories = [f"s.{name}" for name in WITH_HISTORY]
        self.feed: Feed = self.sink.feed(folder / "lake", format_version=format_version, history=histories, **settings)
        self.ts = 1000

    def file(self, name: str, lines: list[bytes]) -> None:
        self.sink.file(("s", name), 1, lines, self.version[name])

    def alter(self) -> None:
        """The statements, each followed by an update of row 1 and a new row."""
        for number in range(2):
            for name, case in self.cases.items():
                if number < len(case.steps):
                    self._apply(name, case.steps[number])
            self.ts += 1000
            self.sink.bucket.checkpoint(self.ts)

    def _apply(self, name: str, step: Step) -> None:
        self.version[name] = ts = self.ts + 100
        self.sink.alter(("s", name), ts, step.query.format(name), columns_of(step.columns))
        rows = self.rows[name]
        for key, row in rows.items():
            rows[key] = (key, *(step.values[key - 1] if key <= 3 else step.of_later[: len(step.columns)]), row[-1])
        rows[1], rows[10 + ts] = (*rows[1][:-1], f"b{ts}"), (10 + ts, *[None] * len(step.columns), "new")
        lines = [("U", rows[1]), ("I", rows[10 + ts])]
        self.file(name, [self.sink.line(("s", name), op, ts + 10, *row) for op, row in lines])

    def change(self) -> None:
        """An update of row 2, and a delete of row 3."""
        for name in self.cases:
            ts, rows = self.ts + 100, self.rows[name]
            gone, rows[2] = rows.pop(3), (*rows[2][:-1], "late")
            lines = [("U", rows[2]), ("D", gone)]
            written = [self.sink.line(("s", name), op, ts, *row) for op, row in lines]
            self.sink.file(("s", name), 2, written, self.version[name])
        self.ts += 1000
        self.sink.bucket.checkpoint(self.ts)

    def wrong(self) -> dict[str, Any]:
        """What is not as at the source: states, rows and histories, by table."""
        found: dict[str, Any] = {}
        for name in self.cases:
            record = self.feed.record(("s", name))
            texts = ([None if v is None else str(v) for v in row] for row in self.rows[name].values())
            expected = sorted(map(repr, texts))
            assert (record.history_table is not None) is (name in WITH_HISTORY)
            for place in filter(None, (record.mirror, record.history_table) if record.state == "live" else ()):
                table = self.feed.lake.lake.catalog.load_table(tuple(place))
                rows = [row for row in table.scan().to_arrow().to_pylist() if row.get("_ticdc_is_current", True)]
                names = ["id", *(CASES[name].steps[-1].columns if self.ts > 1000 else CASES[name].columns), "v"]
                shown = sorted(repr([None if row[n] is None else str(row[n]) for n in names]) for row in rows)
                columns = [c for c in table.schema().column_names if not c.startswith("_ticdc_")]
                if shown != expected or (place is record.mirror and columns != names):
                    found[name] = (place, shown, expected, columns)
            if record.state != "live":
                found[name] = record.note
        return found

    def specs(self) -> dict[str, frozenset[tuple[str, str]]]:
        tables = {name: self.feed.lake.lake.catalog.load_table(("s", name)) for name in self.cases}
        return {
            name: frozenset((str(f.transform), t.schema().find_column_name(f.source_id)) for f in t.spec().fields)
            for name, t in tables.items()
        }


def create(name: str, columns: Columns) -> str:
    sized = {"VARCHAR": "VARCHAR(20)"}
    written = [f"`{column}` {sized.get(kind, kind)}" for column, kind in columns.items()]
    return f"CREATE TABLE `{name}` (`id` INT NOT NULL,{','.join([*written, '`v` VARCHAR(20)'])},PRIMARY KEY(`id`))"


@pytest.mark.long
@pytest.mark.parametrize(
    ("format_version", "names"),
    [
        pytest.param(2, IN_FORMAT_2, id="2"),
        pytest.param(3, IN_FORMAT_3, id="3"),
        pytest.param(2, tuple(CASES), id="2, all", marks=pytest.mark.matrix),
        pytest.param(3, tuple(CASES), id="3, all", marks=pytest.mark.matrix),
    ],
)
def test_a_mirror_follows_its_partition_columns(tmp_path: Path, format_version: int, names: tuple[str, ...]):
    lake = Lake(tmp_path, format_version, names)
    lake.feed.lake.run()
    assert lake.wrong() == {}
    before = {name: lake.feed.record(("s", name)) for name in lake.cases}

    lake.alter()
    lake.feed.lake.run()
    assert lake.wrong() == {}
    assert lake.specs() == {name: case.fields for name, case in lake.cases.items()}

    lake.change()
    lake.feed.lake.run()
    assert lake.wrong() == {}
    for name, case in lake.cases.items():
        table = lake.feed.lake.lake.catalog.load_table(("s", name))
        rows = table.scan(snapshot_id=before[name].mirror_snapshot_id).to_arrow().to_pylist()
        assert sorted((row["id"], str(row["c"])) for row in rows) == [
            (key, str(value)) for key, value in enumerate(case.values, start=1)
        ]

    assert rebuild(lake.feed.lake).errors == {}
    assert lake.wrong() == {}
    assert lake.specs() == {name: case.fields for name, case in lake.cases.items()}


T = ("s", "t")


def two_rows(folder: Path, partition: str, kind: str, *values: Any) -> tuple[Sink, Feed]:
    """A mirror of a table with the columns `id`, `c` and `v`."""
    sink = Sink(folder / "bucket", checkpoint=1000)
    sink.table(T, 100, columns_of({"c": kind}), create("t", {"c": kind}))
    sink.file(T, 1, [sink.line(T, "I", 200 + k, k, value, "a") for k, value in enumerate(values, start=1)])
    feed = sink.feed(folder / "lake", partition=partition)
    feed.lake.run()
    return sink, feed


def rows_of(feed: Feed) -> list[dict[str, Any]]:
    rows = feed.lake.lake.catalog.load_table(T).scan().to_arrow().drop_columns(["_ticdc_commit_ts"]).to_pylist()
    return sorted(rows, key=lambda row: row["id"])


@pytest.mark.long
def test_fields_that_an_earlier_release_named_like_a_column_are_renamed(tmp_path: Path):
    sink, feed = two_rows(tmp_path, "none", "INT", 1, 2)
    sql(feed, "ALTER TABLE {}.t ADD PARTITION FIELD bucket(2, c) AS c_bucket")
    sink.alter(
        T,
        1100,
        "ALTER TABLE `t` ADD COLUMN `c_bucket` INT DEFAULT 5 AFTER `c`",
        columns_of({"c": "INT", "c_bucket": "INT"}),
    )
    sink.file(T, 1, [sink.line(T, "U", 1110, 1, 1, 6, "b")], 1100)
    sink.bucket.checkpoint(2000)

    feed.lake.run()

    assert feed.note(T) == ""
    assert rows_of(feed) == [{"id": 1, "c": 1, "c_bucket": 6, "v": "b"}, {"id": 2, "c": 2, "c_bucket": 5, "v": "a"}]


@pytest.mark.long
def test_a_mirror_that_an_earlier_release_left_half_changed_goes_on(tmp_path: Path):
    sink, feed = two_rows(tmp_path, "day(c)", "DATETIME", *DAYS[:2])
    sql(feed, "ALTER TABLE {}.t RENAME COLUMN c TO c__v1100")  # where it stopped
    sink.alter(T, 1100, "ALTER TABLE `t` DROP COLUMN `c`", columns_of({}))
    sink.file(T, 1, [sink.line(T, "U", 1110, 1, "b")], 1100)
    sink.bucket.checkpoint(2000)

    feed.lake.run()

    assert feed.note(T) == ""
    assert rows_of(feed) == [{"id": 1, "v": "b"}, {"id": 2, "v": "a"}]


@pytest.mark.long
@pytest.mark.parametrize("moment", [Failpoint.BRANCH_WRITTEN, Failpoint.AFTER_MIRROR_COMMIT])
def test_a_run_that_ends_in_the_middle_of_a_statement_leaves_the_mirror_as_it_was(tmp_path: Path, moment: Failpoint):
    sink, feed = two_rows(tmp_path, "day(c)", "DATETIME", *DAYS[:2])
    before = rows_of(feed)
    sink.alter(T, 1100, "ALTER TABLE `t` MODIFY COLUMN `c` DATE", columns_of({"c": "DATE"}))
    sink.bucket.checkpoint(2000)

    def end(at: Failpoint) -> None:
        if at is moment:
            raise BrokenRunError

    LISTENERS.append(end)
    try:
        with pytest.raises(BrokenRunError):
            feed.lake.run()
    finally:
        LISTENERS.remove(end)
    assert rows_of(feed) == before

    feed.lake.mirrors()
    assert [(row["id"], str(row["c"])) for row in rows_of(feed)] == [(1, DAYS[0][:10]), (2, DAYS[1][:10])]


def test_a_conversion_that_sql_cannot_compute_is_exact(tmp_path: Path):
    sink, feed = two_rows(tmp_path, "none", "DOUBLE", "0.30000000000000004", "1e22")
    sink.alter(T, 1100, "ALTER TABLE `t` MODIFY COLUMN `c` TEXT", columns_of({"c": "TEXT"}))
    sink.bucket.checkpoint(2000)

    feed.lake.run()

    assert feed.note(T) == ""
    assert [row["c"] for row in rows_of(feed)] == ["0.30000000000000004", "1" + "0" * 22]


@pytest.mark.long
def test_a_conversion_that_cannot_be_computed_leaves_columns_and_rows_as_they_were(tmp_path: Path):
    sink, feed = two_rows(tmp_path, "none", "DATETIME", *DAYS[:2])
    before = rows_of(feed)
    sink.alter(T, 1100, "ALTER TABLE `t` MODIFY COLUMN `c` TIMESTAMP NULL", columns_of({"c": "TIMESTAMP"}))
    sink.bucket.checkpoint(2000)

    feed.lake.run()

    assert feed.state(T) == "stopped"
    assert rows_of(feed) == before
