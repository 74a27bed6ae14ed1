"""Where Canal sends again what cannot be of any table any more, the tables stop there, and go on once they are created
again."""

from __future__ import annotations

from pathlib import Path

import pytest

from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.small_streams import states
from ticdc_assets_tests.pipeline.stream.official_canal import Name, Server

T, U = ("s", "t"), ("s", "u")
AGAIN = "create the table again at the source"


def created_again(server: Server, *names: Name) -> None:
    """Each table under another name, with the rows copied; the names are swapped with one RENAME TABLE."""
    pairs = []
    for schema, table in names:
        made, old = (schema, f"{table}_new"), (schema, f"{table}_old")
        server.create(made)
        for number in list(server.tables[schema, table].rows):
            server.insert(made, number)
        pairs.append(f"{table} TO {old[1]}, {made[1]} TO {table}")
    server.statement(names[0], f"RENAME TABLE {', '.join(pairs)}", "RENAME")
    for schema, table in names:
        server.tables[schema, f"{table}_old"] = server.tables[schema, table]
        server.tables[schema, table] = server.tables.pop((schema, f"{table}_new"))
    for number, name in enumerate(names):
        server.insert(name, 90 + number)
    for schema, table in names:
        server.drop((schema, f"{table}_old"))


def ids(lake: FeedLake) -> dict[str, list[int]]:
    """By source table, the ids in its changelog."""
    newest = lake.lake.control.newest()
    found = {}
    for record in newest.tables if newest else ():
        rows = lake.lake.catalog.load_table(tuple(record.changelog or ())).scan().to_arrow().to_pylist()
        found[record.table] = sorted(row["id"] for row in rows)
    return found


@pytest.mark.variants(1)
@pytest.mark.parametrize("seconds", [0, 1])
@pytest.mark.parametrize("runs_between", [False, True])
def test_rows_that_were_sent_again_under_a_name_of_before_stop_their_table(
    seconds: int, runs_between: bool, tmp_path: Path
):
    server = Server(tmp_path)
    server.create(T)
    server.insert(T, 1)
    server.second += seconds
    server.rename(T, "u")
    server.insert(U, 2)
    if runs_between:
        server.lake().publish()
    server.send_again(3)
    server.second += 1
    server.insert(U, 3)
    lake = server.lake()

    lake.publish()

    note = lake.records()[U].note
    assert states(lake) == {"u": "stopped"}
    assert "s.t: expected a table of that name at the row, found that it was renamed or dropped before" in note
    assert AGAIN in note
    assert ids(lake) == {"u": [1, 2] if runs_between else [1]}
    created_again(server, U)
    lake.publish()
    assert states(lake) == {"u": "live", "u_old": "dropped"}
    assert ids(lake)["u"] == [1, 2, 3, 90]
    assert lake.publish() is None
    assert lake.complete_tso() > 0


def test_rows_of_a_dropped_table_that_were_sent_again_hold_nothing(tmp_path: Path):
    server = Server(tmp_path)
    server.create(U)
    server.create(T)
    server.insert(T, 1)
    server.drop(T)
    server.insert(U, 2)
    server.send_again(3)
    lake = server.lake()

    lake.publish()

    assert states(lake) == {"t": "dropped", "u": "live"}
    assert ids(lake) == {"t": [1], "u": [2, 2]}
    newest = lake.lake.control.newest()
    assert newest is not None
    assert ["found that it was renamed or dropped" in r.note for r in newest.tables if r.table == "t"] == [True]
    assert lake.publish() is None
    assert lake.complete_tso() > 0


def test_rows_under_a_name_that_a_table_gets_again_are_of_that_table(tmp_path: Path):
    """Between two tables of one name, rows are those of the first that were sent again; it alone stops."""
    server = Server(tmp_path)
    server.create(T)
    server.insert(T, 1)
    server.second += 1
    server.rename(T, "u")
    server.send_again(2)
    server.second += 1
    server.create(T)
    server.insert(T, 2)
    lake = server.lake()

    lake.publish()

    assert states(lake) == {"t": "live", "u": "stopped"}
    assert ids(lake) == {"t": [2], "u": [1]}


def test_a_swap_that_was_sent_again_goes_on_once_both_tables_are_created_again(tmp_path: Path):
    server = Server(tmp_path)
    server.create(T)
    server.create(U)
    server.insert(T, 1)
    server.statement(T, "RENAME TABLE t TO tmp, u TO t, tmp TO u", "RENAME")
    server.tables = {T: server.tables[U], U: server.tables[T]}
    server.send_again(1)
    server.insert(U, 2)
    lake = server.lake()
    lake.publish()
    assert states(lake) == {"t": "stopped", "u": "stopped"}
    assert all("a RENAME came again" in record.note and AGAIN in record.note for record in lake.records().values())

    created_again(server, T, U)
    lake.publish()

    assert states(lake) == {"t": "live", "t_old": "dropped", "u": "live", "u_old": "dropped"}
    assert {name: of_name for name, of_name in ids(lake).items() if "old" not in name} == {"t": [90], "u": [1, 2, 91]}
    assert lake.publish() is None
    assert lake.complete_tso() > 0
