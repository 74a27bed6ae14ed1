"""Streams of Alibaba's Canal end with the tables that MySQL has, whatever happens in one second."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ticdc_assets_tests.pipeline.stream.official_canal import Name, Server, Table, mirrored

T = ("s", "t")


@pytest.mark.spark
def test_what_happens_in_one_second_is_done_in_the_order_it_came(tmp_path: Path):
    server = Server(tmp_path)
    made, emptied, old = ("a", "made"), ("b", "emptied"), ("c", "old")
    server.create(made)
    for number in range(12):
        server.insert(made, number)
    server.create(emptied)
    server.insert(emptied, 1)
    server.truncate(emptied)
    server.insert(emptied, 2)
    server.truncate(emptied)
    server.insert(emptied, 3)
    server.tables[old] = Table(rows={1: {"id": 1, "name": "x"}})
    server.update(old, 1, name="older than the stream")
    server.insert(old, 2)
    server.rename(old, "new")
    server.insert(("c", "new"), 3)
    server.create(old)
    server.insert(old, 4)
    server.add(old, "more", "x")
    server.insert(old, 5, more="y")
    server.forget(old, "more")
    server.insert(old, 6)
    lake = server.lake()

    report = lake.run()

    assert report is not None
    assert report.errors == {}
    assert mirrored(lake) == server.truth()
    assert lake.run() is None


@pytest.mark.parametrize(
    ("order", "sentence"),
    [
        ([0, 1, 2, 4, 3], "feed[0]: expected offsets in ascending order"),
        ([3, 4], "expected new messages after the 3 messages that were consumed"),
        ([0, 1, 2, 4], "feed[0]: expected offset 3 next, found 4"),
    ],
)
def test_a_capture_that_lost_the_order_of_sending_holds_its_tables(tmp_path: Path, order: list[int], sentence: str):
    server = Server(tmp_path)
    server.create(T)
    server.insert(T, 1)
    server.add(T, "more", "x")
    lake = server.lake()
    lake.publish()
    server.insert(T, 2, more="y")
    server.forget(T, "more")
    lines = server.capture.read_text().splitlines(keepends=True)
    server.capture.write_text("".join(lines[number] for number in order))

    lake.publish()

    record = lake.records()[T]
    assert record.state == "stopped"
    assert sentence in record.note
    server.capture.write_text("".join(lines))
    lake.publish()
    assert lake.records()[T].state == "live"
    assert sorted(dict(change.new or ())["id"] for change in lake.changes().elements()) == [1, 2]


@pytest.mark.variants(1)
@pytest.mark.spark
@pytest.mark.parametrize("seed", [1, 2])
def test_any_order_of_statements_and_rows_ends_at_the_truth_in_any_number_of_runs(tmp_path: Path, seed: int):
    """Times go back too: MySQL's binlog has a statement under the time at which it began."""
    chance = random.Random(seed)
    server = Server(tmp_path)
    lake = server.lake()
    for _ in range(3):
        for _ in range(60):
            if chance.random() < 0.1:
                server.second += chance.choice([1, 1, 5, -3])
            some_step(server, chance)
        report = lake.run()
        assert report is not None
        assert report.errors == {}
        assert mirrored(lake) == server.truth()
        assert {r.state for r in lake.records().values()} == {"live"}


def some_step(server: Server, chance: random.Random) -> None:
    name: Name = (chance.choice("pqr"), chance.choice("ab"))
    table = server.tables.get(name)
    if table is None:
        server.create(name)
        return
    step, other = chance.random(), (name[0], "b" if name[1] == "a" else "a")
    more = {column: chance.choice("xyz") for column in table.columns if column not in ("id", "name")}
    if step < 0.04:
        server.drop(name)
    elif step < 0.10:
        server.truncate(name)
    elif step < 0.15 and other not in server.tables:
        server.rename(name, other[1])
    elif step < 0.22 and len(table.columns) < 5:
        server.add(name, f"c{len(server.sent)}", chance.choice("xyz"))
    elif step < 0.26 and more:
        server.forget(name, chance.choice(list(more)))
    elif step < 0.5 and table.rows:
        server.update(name, chance.choice(list(table.rows)), name=f"changed {len(server.sent)}", **more)
    elif step < 0.6 and table.rows:
        server.delete(name, chance.choice(list(table.rows)))
    else:
        server.insert(name, chance.choice(sorted(set(range(9)) - table.rows.keys()) or [len(server.sent)]), **more)


@pytest.mark.spark
def test_statements_are_read_as_users_write_them(tmp_path: Path):
    """With backslash escapes, for several tables at once, of no table at all, and some that did nothing."""
    server, one, two = Server(tmp_path), ("s", "one"), ("s", "two")
    server.create(one, ", path varchar(20) DEFAULT 'a\\nb', said varchar(20) DEFAULT \"it\\'s\"")
    server.tables[one].columns |= {"path": "varchar(20)", "said": "varchar(20)"}
    server.insert(one, 1, path="p", said="s")
    server.statement(("s", ""), "CREATE PROCEDURE p() BEGIN DROP TABLE one; SELECT 1; END")
    server.statement((None, None), "XA COMMIT X'31',X'',1", "XACOMMIT")
    server.statement(("s", None), "GRANT SELECT ON s.* TO 'u'@'%'")
    server.statement(("", ""), "FLUSH PRIVILEGES")
    server.statement(one, "CREATE TABLE IF NOT EXISTS one (id int NOT NULL PRIMARY KEY, name varchar(200))", "CREATE")
    server.insert(one, 2, path="q", said="r")
    server.statement(one, "ALTER TABLE one ADD COLUMN brk varchar(9) NOT NULL DEFAULT 'x\\ty\\\\z''w'", "ALTER")
    server.tables[one].columns["brk"] = "varchar(9)"
    for row in server.tables[one].rows.values():
        row["brk"] = "x\ty\\z'w"
    server.create(two)
    server.insert(two, 7, "INIT")
    server.statement(two, "RENAME TABLE one TO tmp, two TO one, tmp TO two", "RENAME")
    server.tables = {one: server.tables[two], two: server.tables[one]}
    server.insert(one, 8)
    server.insert(two, 3, path="a", said="b", brk="c")
    server.statement(one, "ALTER TABLE one RENAME TO three, ADD COLUMN geo POINT NULL", "ALTER")
    three = ("s", "three")
    server.tables[three] = server.tables.pop(one)
    server.tables[three].columns["geo"] = "point"
    for row in server.tables[three].rows.values():
        row["geo"] = None
    server.insert(three, 9, geo="POINT(1 2)")
    lake = server.lake()

    report = lake.run()

    assert report is not None
    assert report.errors == {}
    assert lake.lake.control.quarantined() == []
    assert mirrored(lake) == server.truth()


@pytest.mark.spark
def test_rows_of_other_partitions_are_put_by_the_times_they_were_executed_and_sent(tmp_path: Path):
    server, t = Server(tmp_path, partition_of=lambda number: number % 3), ("s", "t")
    server.create(t)
    for number in range(6):
        server.insert(t, number)
    server.truncate(t)
    for number in range(6, 12):
        server.insert(t, number)
    server.second += 1
    server.add(t, "more", "x")
    server.insert(t, 12, more="y")
    server.rename(t, "u")
    server.insert(("s", "u"), 13, more="z")
    lake = server.lake()

    report = lake.run()

    assert report is not None
    assert report.errors == {}
    assert mirrored(lake) == server.truth()


def test_a_statement_that_was_sent_again_is_done_once(tmp_path: Path):
    server, t, u = Server(tmp_path), ("s", "t"), ("s", "u")
    server.create(t)
    server.insert(t, 1)
    server.add(t, "more", "x")
    server.insert(t, 2, more="y")
    server.send_again(2)
    server.rename(t, "u")
    server.insert(u, 3, more="z")
    server.send_again(2)
    lake = server.lake()

    lake.publish()

    assert {name: record.state for name, record in lake.records().items()} == {u: "live"}
    [table] = lake.history.source_tables
    assert [column.name for column in table.newest.columns] == ["id", "name", "more"]
    assert len(table.versions) == 2


@pytest.mark.parametrize("run_between", [True, False])
def test_a_swap_that_was_sent_again_holds_both_tables(tmp_path: Path, run_between: bool):
    """Done again, it would swap them back."""
    server, t, u = Server(tmp_path), ("s", "t"), ("s", "u")
    server.create(t)
    server.create(u)
    server.insert(t, 1)
    server.statement(t, "RENAME TABLE t TO tmp, u TO t, tmp TO u", "RENAME")
    lake = server.lake()
    if run_between:
        lake.publish()
        assert {name: record.state for name, record in lake.records().items()} == {t: "live", u: "live"}
    server.tables = {t: server.tables[u], u: server.tables[t]}
    server.send_again(1)
    server.insert(u, 2)
    server.insert(t, 3)

    lake.publish()

    assert {name: record.state for name, record in lake.records().items()} == {t: "stopped", u: "stopped"}
    assert all("a RENAME came again" in record.note for record in lake.records().values())
    [change] = lake.changes().elements()
    assert dict(change.new or ())["id"] == 1


def test_a_rename_that_was_sent_again_does_not_take_the_table_that_was_made_since(tmp_path: Path):
    server, t, u = Server(tmp_path), ("s", "t"), ("s", "u")
    server.create(t)
    server.insert(t, 1)
    server.second += 1
    server.rename(t, "u")
    server.create(t)
    server.insert(t, 9)
    server.send_again(3)
    server.insert(u, 2)
    lake = server.lake()

    lake.publish()

    assert {name: record.state for name, record in lake.records().items()} == {t: "live", u: "stopped"}
    assert "a RENAME came again" in lake.records()[u].note


def test_a_row_that_cannot_be_typed_names_its_column_and_type(tmp_path: Path):
    server = Server(tmp_path)
    server.tables[T] = Table({**server.tables.get(T, Table()).columns, "odd": "hypercube(3)"})
    server.insert(T, 1, odd="o")
    server.tables["s", "u"] = Table()
    server.insert(("s", "u"), 1)
    lake = server.lake()

    lake.publish()

    records = lake.records()
    assert {name: record.state for name, record in records.items()} == {T: "waiting", ("s", "u"): "live"}
    assert "column odd" in records[T].note
    assert "hypercube(3)" in records[T].note


def test_an_unreadable_statement_without_a_name_stops_its_table_alone(tmp_path: Path):
    server, u = Server(tmp_path), ("s", "u")
    for name in (T, u):
        server.create(name)
        server.insert(name, 1)
    server.statement(("s", ""), "ALTER TABLE t FROBNICATE")
    for name in (T, u):
        server.insert(name, 2)
    lake = server.lake()

    lake.publish()

    assert {name: record.state for name, record in lake.records().items()} == {T: "stopped", u: "live"}
    assert "FROBNICATE" in lake.records()[T].note
