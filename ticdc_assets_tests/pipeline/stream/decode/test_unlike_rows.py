"""How a row differs from its table, and the schemas that are inferred from rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ticdc_assets.names.table_filter import ColumnSelector, ColumnSelectors, TableFilter
from ticdc_assets.pipeline.stream.decode.row_schemas import (
    SHAPES_MAX,
    Shapes,
    Unlike,
    changed_type,
    column_rules,
    inferred_by,
    merged_schemas,
    unlike,
)
from ticdc_assets.pipeline.stream.decode.task import Decoding, MessageTask, RowOrder, Schemas, VersionClock
from ticdc_assets.protocols.canal_json.decoder import Hint
from ticdc_assets.protocols.events import Op, RowEvent, RowHints, RowTime
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.history.fold.events import fold
from ticdc_assets.schema.model import TableSchema
from ticdc_assets.sources.capture import Message
from ticdc_assets.tso import LOGICAL_BITS
from ticdc_assets_tests.schema.history.histories import event

NAME = ("shop", "t")
MESSAGE = Message("feed", 0, 7, b"", b"", 0)
TYPES = {"id": Hint("int", 4), "v": Hint("varchar(9)", 12)}


def table(*columns: str) -> TableSchema:
    [made] = fold([event(10, "t", f"CREATE TABLE `t` ({', '.join(columns)})")]).source_tables
    return made.newest


TABLE = table("`id` INT PRIMARY KEY", "`v` VARCHAR(9)")
INFERRED = replace(TABLE, inferred=True)


def task(protocol: str = "canal-json", clock: VersionClock = VersionClock.COMMIT_TS, leaves_out: str = "") -> Any:
    rules = (ColumnSelector(TableFilter(("shop.*",)), ("*", f"!{leaves_out}")),) if leaves_out else ()
    schemas = Schemas({}, {}, {}, frozenset(), TableFilter(()), clock, ColumnSelectors(rules))
    stretch: Any = None
    return MessageTask("run", 0, 99, stretch, Decoding(protocol, None, "UTC"), schemas, RowOrder(False, {}), {})


def row(
    *columns: str, op: Op = Op.INSERT, commit_ts: int | None = 20, before: tuple[str, ...] = (), **more: Any
) -> Any:
    old = dict.fromkeys(before, "1") if before else None
    return RowEvent("shop", "t", op, commit_ts, dict.fromkeys(columns, "1"), old, **more)


# -- which column differs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "found"),
    [
        (row("id", "v"), None),
        (row("ID", "V"), None),
        (row("id", "v", "w"), Unlike("found 'w'", is_inferable=True, unknown="w")),
        (row("id", "v", op=Op.UPDATE, before=("id", "w")), Unlike("found 'w'", is_inferable=True, unknown="w")),
        (row("id"), Unlike("found no 'v'", is_inferable=False, lacking="v")),
        (row("id", handle_only=True), None),
        (row("id", op=Op.DELETE), None),
        (row("v", op=Op.DELETE), Unlike("found no 'id'", is_inferable=False, lacking="id")),
        (row("v", op=Op.DELETE, hints=RowHints(key=("V",))), None),
        (row("id", "w", op=Op.DELETE), Unlike("found 'w'", is_inferable=True, unknown="w")),
    ],
)
def test_a_row_is_unlike_its_table_by_a_column_that_only_one_of_them_has(sent: RowEvent, found: Unlike | None):
    """Of a deleted row and of a large one the key may be all that is sent."""
    assert unlike(task(), TABLE, sent, NAME) == found


def test_a_column_that_the_changefeed_leaves_out_is_not_missing():
    assert column_rules(task(), TABLE, NAME).lacking(("id",), False) == "v"
    assert column_rules(task(leaves_out="v"), TABLE, NAME).lacking(("id",), False) is None
    assert column_rules(task(leaves_out="v"), TABLE, ("bank", "t")).lacking(("id",), False) == "v"
    assert column_rules(task(), table("`id` INT", "`v` INT AS (`id` + 1)"), NAME).lacking(("id",), False) is None


def test_columns_of_a_table_whose_virtual_ones_are_not_known_are_not_missed():
    assert column_rules(task(), replace(TABLE, virtual_unknown=True), NAME).lacking(("id",), False) is None
    assert column_rules(task(), INFERRED, NAME).lacking(("id",), False) == "v"
    assert column_rules(task("avro"), INFERRED, NAME).lacking(("id",), False) == "v"
    assert column_rules(task("simple"), TABLE, NAME).lacking(("id",), False) == "v"


def typed(**types: str | None) -> RowEvent:
    made = row(*types, hints=RowHints(("id",), columns={name: Hint(text, 4) for name, text in types.items()}))
    assert isinstance(made, RowEvent)
    return made


def test_a_column_has_another_type_only_in_a_table_that_is_inferred_from_rows():
    other = typed(id="int", v="datetime")

    assert changed_type(task(), INFERRED, other) == "v"
    assert unlike(task(), INFERRED, other, NAME) == Unlike("found another type of 'v'", is_inferable=True)
    assert changed_type(task(), TABLE, other) is None
    assert changed_type(task("simple"), INFERRED, other) is None
    assert changed_type(task(), INFERRED, typed(id="int", v="varchar(9)")) is None
    assert changed_type(task(), INFERRED, row("id", "v")) is None
    assert changed_type(task(), INFERRED, typed(id="int", v=None)) is None


# -- the schema of a row ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("commit_ts", "ms", "after"),
    [(20, None, 19), (1, None, 0), (0, None, 0), (None, 3, 3 << LOGICAL_BITS), (None, None, 0)],
)
def test_the_schema_of_a_row_is_in_effect_from_just_before_it(commit_ts: int | None, ms: int | None, after: int):
    """Where only milliseconds are known, rows of one millisecond are separated by their columns."""
    sent = replace(typed(id="int", v="int"), commit_ts=commit_ts, time=RowTime(ms))

    found = inferred_by(task(), ("Shop", "T"), sent, MESSAGE)

    assert found is not None
    assert found.after is not None
    assert (found.commit_ts, found.schema, found.table, found.query) == (after, "Shop", "T", "")
    assert (found.after.schema, found.after.name, found.after.key, found.after.inferred) == ("Shop", "T", ("id",), True)


def test_a_row_without_types_has_no_schema():
    assert inferred_by(task(), NAME, row("id"), MESSAGE) is None
    assert inferred_by(task(), NAME, typed(id=None), MESSAGE) is None
    assert inferred_by(task("simple"), NAME, typed(id="int"), MESSAGE) is None
    assert inferred_by(task(clock=VersionClock.POSITION), NAME, typed(id="int"), MESSAGE) is None


def shape(ts: int, *columns: str, schema: str = "shop", name: str = "t", query: str = "") -> DdlEvent:
    made = table(*columns)
    return DdlEvent(ts, schema, name, query, after=replace(made, schema=schema, name=name))


def test_each_set_of_columns_is_kept_once_from_the_earliest_row():
    shapes = Shapes()
    late, early, other = shape(30, "`a` INT"), shape(20, "`A` INT"), shape(40, "`a` INT", "`b` INT")
    for each in (late, other, early, late, replace(early, where="again"), shape(40, "`b` INT", "`a` INT")):
        shapes.add(each)

    assert shapes.events() == (early, other)


def test_only_so_many_sets_of_columns_are_kept_and_these_still_get_earlier_rows():
    shapes, made = Shapes(), [shape(100 + n, f"`c{n}` INT") for n in range(SHAPES_MAX + 1)]
    for each in (*made, replace(made[0], commit_ts=5), replace(made[-1], commit_ts=5)):
        shapes.add(each)

    assert shapes.events() == (replace(made[0], commit_ts=5), *made[1:-1])


def test_schemas_of_one_table_and_time_are_one_with_all_their_columns():
    one, wider, later = shape(10, "`a` INT"), shape(10, "`a` INT", "`b` INT"), shape(11, "`a` INT")
    other = shape(10, "`a` INT", name="u")

    found = merged_schemas([later, one, other, wider], ())

    assert [(event.commit_ts, event.table) for event in found] == [(10, "t"), (10, "u"), (11, "t")]
    assert [[c.name for c in event.after.columns] for event in found if event.after] == [["a", "b"], ["a"], ["a"]]


def test_schemas_that_do_not_go_together_are_that_of_the_first_row():
    one = shape(10, "`a` INT")

    assert merged_schemas([one, shape(10, "`a` DATETIME")], ()) == [one]


def test_schemas_of_a_table_and_time_that_are_known_are_left_out_unless_a_statement_has_that_time():
    one, known = shape(10, "`a` INT"), shape(10, "`b` INT")

    assert merged_schemas([one], [known]) == []
    assert merged_schemas([one], [replace(known, query="ALTER TABLE t ADD COLUMN b INT")]) == [one]
    assert merged_schemas([one], [shape(11, "`b` INT"), shape(10, "`b` INT", name="u")]) == [one]
