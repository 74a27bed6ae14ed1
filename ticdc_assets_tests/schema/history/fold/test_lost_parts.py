"""RENAME of several tables in a storage sink: TiCDC overwrites the schema file of a name that is used twice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import permutations

import pytest

from ticdc_assets.schema.ddl_event import DdlEvent, DdlHints
from ticdc_assets.schema.history.fold.events import Known, fold
from ticdc_assets.schema.history.source_table import History
from ticdc_assets_tests.schema.history.histories import event, table

COLUMNS = {"a": ("id", "x"), "b": ("id", "y"), "c": ("id", "z"), "d": ("id", "w")}
ALIKE = {**COLUMNS, "c": COLUMNS["a"], "d": COLUMNS["b"]}


def schema_file(ts: int, name: str, query: str, columns: Iterable[str]) -> DdlEvent:
    schema, _, of_it = name.rpartition(".")
    made = replace(table(of_it, *columns, key=("id",)), schema=schema or "shop")
    return replace(event(ts, of_it, query, schema or "shop", made), hints=DdlHints(version=ts))


def created(columns: Mapping[str, tuple[str, ...]], ts: int = 10) -> list[DdlEvent]:
    texts = {
        name: ", ".join(f"`{c}` INT{' PRIMARY KEY' if c == 'id' else ''}" for c in columns[name]) for name in columns
    }
    return [
        schema_file(ts + n, name, f"CREATE TABLE `{name.rpartition('.')[2]}` ({text})", columns[name])
        for n, (name, text) in enumerate(texts.items())
    ]


def shown(columns: Mapping[str, tuple[str, ...]]) -> list[DdlEvent]:
    """Schema files of tables that are older than the stream."""
    return [schema_file(10 + n, name, "", columns[name]) for n, name in enumerate(columns)]


def renamed(ts: int, parts: str, columns: Mapping[str, tuple[str, ...]]) -> list[DdlEvent]:
    """The schema files that TiCDC leaves of `a>tmp b>a tmp>b`: of each final name the last part."""
    final: dict[str, str] = {}
    pairs = [part.split(">") for part in parts.split()]
    origin: dict[str, str] = {}
    for old, new in pairs:
        origin[new] = origin.pop(old, old)
    for old, new in pairs:
        at = new
        while at not in origin or not _ends_here(pairs, old, new, at):
            at = next(later for earlier, later in pairs[pairs.index([old, new]) + 1 :] if earlier == at)
        final[at] = f"RENAME TABLE {_quoted(old)} TO {_quoted(new)};"
    return [schema_file(ts, name, query, columns[origin[name]]) for name, query in final.items()]


def _ends_here(pairs: list[list[str]], old: str, new: str, at: str) -> bool:
    return not any(earlier == at for earlier, _ in pairs[pairs.index([old, new]) + 1 :])


def _quoted(name: str) -> str:
    schema, _, of_it = name.rpartition(".")
    return f"`{schema or 'shop'}`.`{of_it}`"


def names(history: History) -> dict[str, str]:
    return {source_table.id.partition("@")[0]: ".".join(source_table.name) for source_table in history.source_tables}


MOVES = [
    ("a>tmp b>a tmp>b", {"shop.a": "shop.b", "shop.b": "shop.a", "shop.c": "shop.c", "shop.d": "shop.d"}),
    ("a>tmp b>a c>b tmp>c", {"shop.a": "shop.c", "shop.b": "shop.a", "shop.c": "shop.b", "shop.d": "shop.d"}),
    ("a>t b>a t>b c>u d>c u>d", {"shop.a": "shop.b", "shop.b": "shop.a", "shop.c": "shop.d", "shop.d": "shop.c"}),
    ("a>t b>a t>b c>t d>c t>d", {"shop.a": "shop.b", "shop.b": "shop.a", "shop.c": "shop.d", "shop.d": "shop.c"}),
    ("a>tmp tmp>A", {"shop.a": "shop.A", "shop.b": "shop.b", "shop.c": "shop.c", "shop.d": "shop.d"}),
    ("a>old b>a", {"shop.a": "shop.old", "shop.b": "shop.a", "shop.c": "shop.c", "shop.d": "shop.d"}),
]  # fmt: skip


@pytest.mark.parametrize("beginning", [created, shown])
@pytest.mark.parametrize(("parts", "wanted"), MOVES)
def test_tables_follow_their_names_though_a_part_was_overwritten(parts: str, wanted: dict[str, str], beginning):
    files = renamed(30, parts, COLUMNS)

    for order in permutations(files):
        history = fold([*beginning(COLUMNS), *order])

        assert names(history) == wanted
        assert not any(source_table.stop or source_table.dropped_ts for source_table in history.source_tables)


def test_a_table_of_the_same_columns_that_keeps_its_name_is_no_obstacle():
    alike = dict.fromkeys("abcd", ("id", "x"))

    history = fold([*created(alike), *renamed(30, "a>tmp b>a tmp>b", alike)])

    assert names(history) == {"shop.a": "shop.b", "shop.b": "shop.a", "shop.c": "shop.c", "shop.d": "shop.d"}
    assert not any(source_table.stop for source_table in history.source_tables)


def test_a_swap_across_databases_swaps():
    columns = {"one.a": ("id", "x"), "two.a": ("id", "y")}

    history = fold([*created(columns), *renamed(30, "one.a>one.tmp two.a>one.a one.tmp>two.a", columns)])

    assert names(history) == {"one.a": "two.a", "two.a": "one.a"}


def test_a_swap_that_is_undone_leaves_every_table_its_name():
    swapped = {**COLUMNS, "a": COLUMNS["b"], "b": COLUMNS["a"]}

    history = fold(
        [*created(COLUMNS), *renamed(30, "a>tmp b>a tmp>b", COLUMNS), *renamed(40, "a>tmp b>a tmp>b", swapped)]
    )

    assert names(history) == {f"shop.{name}": f"shop.{name}" for name in COLUMNS}
    found = history.as_of("shop", "a", 35)
    assert found is not None
    assert found[0].id == "shop.b@11"


def test_a_table_that_had_the_name_in_between_before_is_not_the_one_that_moves():
    of_tmp = [*created({"tmp": ("id", "x")}, 2), schema_file(5, "tmp", "DROP TABLE `shop`.`tmp`", ("id", "x"))]

    history = fold([*of_tmp, *created(COLUMNS), *renamed(30, "a>tmp b>a tmp>b", COLUMNS)])

    assert names(history)["shop.a"] == "shop.b"
    assert history.source_tables[0].dropped_ts == 5


def test_a_first_part_that_is_not_overwritten_yet_moves_the_table_as_well():
    files = renamed(30, "a>tmp b>a tmp>b", COLUMNS)
    first = [
        replace(file, query="RENAME TABLE `shop`.`a` TO `shop`.`tmp`;") if file.table == "b" else file for file in files
    ]

    assert names(fold([*created(COLUMNS), *first])) == names(fold([*created(COLUMNS), *files]))


def test_swaps_that_the_columns_do_not_tell_apart_stop_all_their_tables():
    history = fold([*created(ALIKE), *renamed(30, "a>t1 b>a t1>b c>t2 d>c t2>d", ALIKE)])

    assert names(history) == {f"shop.{name}": f"shop.{name}" for name in ALIKE}
    for source_table in history.source_tables:
        assert source_table.stop is not None
        assert source_table.stop.ts == 30
        assert "whether shop.a or shop.c is now shop.b or shop.d" in source_table.stop.reason


@pytest.mark.parametrize("there", ["a", "b"])
def test_a_part_that_is_not_there_stops_the_table_whose_name_is_taken_until_it_comes(there: str):
    alike = {**COLUMNS, "b": COLUMNS["a"]}
    files = renamed(30, "a>tmp b>a tmp>b", alike)
    early = fold([*created(alike), *(file for file in files if file.table == there)])

    stopped = {".".join(source_table.name): source_table.stop for source_table in early.source_tables}
    assert stopped["shop.a"] or stopped["shop.b"]
    assert stopped["shop.b"] is not None
    assert stopped["shop.c"] is None


def test_a_table_that_went_through_a_name_to_a_new_one_stops_with_the_new_one():
    """The stream does not show whether it was this table, or one that is older and quiet."""
    files = renamed(30, "a>tmp tmp>e", COLUMNS)
    history = fold([*created(COLUMNS), *files])

    stopped = {".".join(t.name) for t in history.source_tables if t.stop is not None}
    assert stopped == {"shop.a", "shop.e"}

    quiet = Known({("shop", "tmp"): table("tmp", "id", "x", key=("id",))})
    described = fold([*created(COLUMNS), *files], quiet)
    assert not any(source_table.stop for source_table in described.source_tables)
    assert names(described)["shop.tmp"] == "shop.e"


def test_a_quiet_table_of_schema_files_takes_the_part_that_was_overwritten():
    known = Known({("shop", "a"): table("a", "id", "x", key=("id",))})

    history = fold([*created({"b": COLUMNS["b"]}), *renamed(30, "a>tmp b>a tmp>b", COLUMNS)], known)

    assert names(history) == {"shop.b": "shop.a", "shop.a": "shop.b"}
    assert [source_table.marks for source_table in history.source_tables] == [(), ()]


def test_a_stopped_table_stays_stopped_under_its_other_name():
    stop = schema_file(20, "a", "ALTER TABLE `a` NONSENSE", COLUMNS["a"])

    history = fold([*created(COLUMNS), stop, *renamed(30, "a>tmp b>a tmp>b", COLUMNS)])

    by_name = {".".join(source_table.name): source_table for source_table in history.source_tables}
    assert by_name["shop.b"].stop is not None
    assert by_name["shop.b"].id == "shop.a@10"
    assert by_name["shop.a"].stop is None


@pytest.mark.parametrize("parts", ["a>a_old new>a", "a>tmp new>a tmp>new"])
def test_a_table_that_is_created_again_takes_the_name_of_the_stopped_one(parts: str):
    """As the note of a stopped table advises, and with a swap of the names."""
    stopped = [*created(ALIKE), *renamed(30, "a>t b>a t>b c>u d>c u>d", ALIKE)]
    again = {"new": COLUMNS["a"], "a": COLUMNS["a"]}

    history = fold([*stopped, *created({"new": COLUMNS["a"]}, 40), *renamed(50, parts, again)])

    found = history.as_of("shop", "a", 51)
    assert found is not None
    assert (found[0].id, found[0].stop) == ("shop.new@40", None)
    assert {t.name[1] for t in history.source_tables if t.stop is not None} >= {"b", "c", "d"}
