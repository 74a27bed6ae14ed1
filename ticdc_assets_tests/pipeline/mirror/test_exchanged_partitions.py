"""EXCHANGE PARTITION exchanges the rows of a partition and of a table in both mirrors, at one TSO."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ticdc_assets.changes import layout
from ticdc_assets.failpoints import LISTENERS, Failpoint
from ticdc_assets_tests.deliveries.database import RowChange, Shape, Statement
from ticdc_assets_tests.deliveries.wires import SimpleJson
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.small_feeds import BrokenRunError
from ticdc_assets_tests.pipeline.small_streams import TOPIC, SmallStream, at, shape, states

P, T = shape("p"), shape("t")
RANGE = "RANGE (`id`) (PARTITION `p0` VALUES LESS THAN (100),PARTITION `p1` VALUES LESS THAN (MAXVALUE))"
Rows = dict[int, str]


@dataclass
class Pair:
    """What TiDB does with the two tables, and the stream of it."""

    stream: SmallStream
    cut: str = RANGE
    inside: Callable[[int], bool] = lambda number: number < 100
    p: Rows = field(default_factory=dict)
    t: Rows = field(default_factory=dict)
    tick: int = 10

    def begin(self, created: str = "pt") -> Pair:
        for made, clause in ((P, f" PARTITION BY {self.cut}"), (T, "")):
            if made.name in created:
                statement = Statement(at(1), "create table", made.create + clause, None, made)
                self.stream.send(TOPIC, 0, self.stream.wire.statement(statement))
        return self

    def put(self, table: Shape, number: int, name: str) -> None:
        self.tick += 1
        (self.p if table is P else self.t)[number] = name
        self.stream.put(self.tick, table, number, name=name)

    def delete(self, table: Shape, number: int) -> None:
        self.tick += 1
        row = {"id": number, "name": (self.p if table is P else self.t).pop(number)}
        self.stream.send(TOPIC, 0, *self.stream.wire.rows([RowChange(at(self.tick), table, "D", row, row)]))

    def exchange(self, more: str = "") -> None:
        self.tick += 1
        query = f"ALTER TABLE `p` EXCHANGE PARTITION `p0` WITH TABLE `t`{more}"
        self.stream.ddl(self.tick, query, T)
        went = {number: name for number, name in self.p.items() if self.inside(number)}
        self.p = {n: name for n, name in self.p.items() if n not in went} | self.t
        self.t = went

    def watermark(self) -> None:
        self.tick += 1
        self.stream.watermark(self.tick)


def shown(lake: FeedLake, name: str) -> Rows:
    [record] = [r for r in lake.lake.control.newest().tables if r.table == name]
    table = lake.lake.catalog.load_table(tuple(record.mirror or ()))
    assert record.mirror_snapshot_id == table.current_snapshot().snapshot_id
    return {row["id"]: row["name"] for row in table.scan().to_arrow().to_pylist()}


def folded(lake: FeedLake, name: str) -> Rows:
    """The changelog as anyone folds it."""
    [record] = [r for r in lake.lake.control.newest().tables if r.table == name]
    table = lake.lake.catalog.load_table(tuple(record.changelog or ()))
    assert record.changelog_snapshot_id == table.current_snapshot().snapshot_id
    rows: Rows = {}
    changes = table.scan().to_arrow().to_pylist()
    for change in sorted(changes, key=lambda c: (c[layout.COMMIT_TS], c[layout.SEQ])):
        if change[layout.OP] == "D":
            assert rows.pop(change["id"]) == change["name"]  # a D holds the old values
        else:
            rows[change["id"]] = change["name"]
    return rows


def assert_true(lake: FeedLake, pair: Pair) -> None:
    assert (shown(lake, "p"), shown(lake, "t")) == (pair.p, pair.t)
    assert (folded(lake, "p"), folded(lake, "t")) == (pair.p, pair.t)
    assert lake.lake.control.newest(complete=True).tso == at(pair.tick)
    assert set(states(lake).values()) == {"live"}


@contextmanager
def broken_at(number: int) -> Iterator[list[Failpoint]]:
    """Break at the moment of that number."""
    passed: list[Failpoint] = []

    def listen(moment: Failpoint) -> None:
        passed.append(moment)
        if len(passed) == number:
            raise BrokenRunError

    LISTENERS.append(listen)
    try:
        yield passed
    finally:
        LISTENERS.remove(listen)


CUTS = [
    (RANGE, lambda number: number < 100),
    (
        "LIST (`id`) (PARTITION `p0` VALUES IN (1,2,3,4,7),PARTITION `p1` DEFAULT)",
        lambda number: number in (1, 2, 3, 4, 7),
    ),
    ("HASH (`id`) PARTITIONS 2", lambda number: number % 2 == 0),
]


@pytest.mark.variants(1)
@pytest.mark.spark
@pytest.mark.parametrize(("cut", "inside"), CUTS, ids=["range", "list", "hash"])
@pytest.mark.parametrize("in_steps", [False, True])
def test_an_exchange_swaps_the_rows_of_partition_and_table(
    tmp_path: Path, cut: str, inside: Callable[[int], bool], in_steps: bool
) -> None:
    wire = SimpleJson() if in_steps else None
    stream = SmallStream(tmp_path, **({"wire": wire} if wire else {}))
    pair = Pair(stream, cut, inside).begin()
    lake = stream.lake()

    def step() -> None:
        if in_steps:
            pair.watermark()
            lake.run()
            assert_true(lake, pair)

    numbers = [n for n in (1, 2, 3, 4, 7, 8) if inside(n)]
    for number in (1, 2, 3, 100, 101):
        pair.put(P, number, f"p {number}")
    for number in numbers[1:]:
        pair.put(T, number, f"t {number}")
    step()
    pair.exchange()
    step()
    pair.put(P, numbers[0], "after")
    pair.put(T, 200, "after")
    for number in sorted(pair.t):
        pair.delete(T, number)
    step()
    pair.exchange()
    pair.watermark()
    lake.run()

    assert_true(lake, pair)
    assert lake.run() is None
    for name in ("p", "t"):  # a mirror is made again from its changelog alone
        lake.lake.catalog.drop_table(("s", name))
    lake.mirrors()
    assert_true(lake, pair)


@pytest.mark.spark
@pytest.mark.matrix
def test_a_run_may_end_anywhere_in_an_exchange(tmp_path: Path) -> None:
    pair = Pair(SmallStream(tmp_path)).begin()
    lake = pair.stream.lake()
    for number in (1, 2, 100):
        pair.put(P, number, f"p {number}")
    pair.watermark()
    lake.run()
    broken = 0
    for number in range(1, 60, 3):
        pair.put(T, 2, f"t {number}")
        pair.put(T, 3, f"t {number}")
        pair.exchange()
        pair.put(P, 1000 + number, "after")
        pair.watermark()
        lake.publish()
        with suppress(BrokenRunError), broken_at(number) as passed:
            lake.mirrors()
        if len(passed) < number:
            break
        broken += 1
        lake.mirrors()
        assert_true(lake, pair)
    assert broken > 4


@pytest.mark.spark
def test_rows_that_belong_elsewhere_hold_both_mirrors(tmp_path: Path) -> None:
    pair = Pair(SmallStream(tmp_path)).begin()
    pair.stream.create(1, shape("other"))
    pair.put(P, 1, "one")
    pair.put(T, 500, "not of p0")
    pair.exchange(" WITHOUT VALIDATION")
    pair.stream.put(pair.tick + 1, shape("other"), 1)
    pair.watermark()
    pair.watermark()
    lake = pair.stream.lake()

    lake.run()

    assert states(lake) == {"p": "stopped", "t": "stopped", "other": "live"}
    notes = [r.note for r in lake.lake.control.newest().tables if r.table in "pt"]
    assert all("EXCHANGE PARTITION p0 of s.p with s.t" in note and "WITHOUT VALIDATION" in note for note in notes)
    assert not lake.lake.control.newest().complete
    lake.mirrors()
    assert states(lake) == {"p": "stopped", "t": "stopped", "other": "live"}


@pytest.mark.long
@pytest.mark.spark
def test_a_table_that_was_exchanged_and_dropped_at_once_has_given_its_rows(tmp_path: Path) -> None:
    pair = Pair(SmallStream(tmp_path)).begin()
    pair.put(P, 1, "one")
    pair.put(T, 2, "two")
    pair.exchange()
    pair.tick += 1
    pair.stream.drop(pair.tick, T)
    pair.watermark()
    lake = pair.stream.lake(on_drop="drop")

    lake.run()

    assert shown(lake, "p") == {2: "two"} == folded(lake, "p")
    assert states(lake) == {"p": "live", "t": "dropped"}
    assert not lake.lake.catalog.table_exists(("s", "t"))
    assert lake.lake.control.newest().complete
