"""Holds what came of a stream of workloads against what the server had."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ticdc_assets.changes import layout
from ticdc_assets.schema.history.source_table import History
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.tidb.replayed import TableState, canonical
from ticdc_assets_tests.tidb.workloads.stream import Name, WorkloadStream

REFUSALS = (
    "expected partitions by text with a binary collation",
    "expected partitions by a column that compares as in the lake",
    "expected KEY partitions by columns whose hash can be computed",
    "expected a partition's bound that is a literal of its column",
    "expected HASH partitions by whole numbers that rows have",
    "expected partitions by what can be computed from a row",
    "expected dates that show in which partition each row was",
    "EXCHANGE PARTITION",
    "expected rows that belong to the partition, found others (WITHOUT VALIDATION)",
    "CREATE TABLE LIKE",
    "expected a change of type that this project can redo",
    "expected rows from before its key came",
    "expected a key at all times",
    "expected a value in every row, since it is of the key",
    "expected a value for the column",
    "it restores rows that the stream does not show",
)
"""Why a table may be held: what is done to it and no stream tells, or no lake can do."""

_NO_DATE: Final = re.compile(r"0000-|\d{4}-(00|\d\d-00)")


def schema_differences(
    history: History, ts: int, tables: Mapping[Name, TableState], *, only_stored: bool = False
) -> Iterator[str]:
    """What the tables that are not held have otherwise than the server at this TSO; with `only_stored` not of virtual
    columns, which no row has."""
    for name, state in tables.items():
        found = history.as_of(*name, ts + 1)
        if found is None or (found[0].stop is not None and found[0].stop.ts <= ts):
            continue
        in_lake = [(c.name, canonical(c.type), c.nullable, c.virtual) for c in found[1].table.columns]
        in_tidb = [
            (column, state.types[str(column)], null == "YES", extra == "VIRTUAL GENERATED")
            for column, _, _, null, extra in state.columns
        ]
        if only_stored:
            in_lake, in_tidb = ([column for column in columns if not column[-1]] for columns in (in_lake, in_tidb))
        if in_lake != in_tidb:
            yield f"{name} at {ts}: {_only_in(in_lake, in_tidb)} for {_only_in(in_tidb, in_lake)}"
        if list(found[1].table.key) != state.key:
            yield f"{name} at {ts}: the key {found[1].table.key} for {state.key}"


def _only_in(some: list[tuple[Any, ...]], others: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [column for column in some if column not in others]


def mirror_differences(lake: FeedLake, stream: WorkloadStream) -> Iterator[str]:
    """What mirrors of tables that are not held have otherwise than the server, cell by cell; and tables that are held
    for another reason than one of REFUSALS, that lack, or that are too many."""
    records = lake.records()
    yield from (f"{name} should not be there: {records[name].note}" for name in records.keys() - stream.tables.keys())
    for name, state in stream.tables.items():
        record = records.get(name)
        if record is None:
            yield from () if _is_copy_of_held(name, lake, stream) else (f"{name} is missing",)
        elif record.state != "live":
            yield from () if any(reason in record.note for reason in REFUSALS) else (f"{name}: {record.note}",)
        elif record.mirror is not None:
            yield from _row_differences(name, state, _rows(lake.lake.catalog.load_table(tuple(record.mirror))))
        elif state.key:
            yield f"{name} has no mirror"


def _row_differences(name: Name, state: TableState, found: dict[int, dict[str, Any]]) -> Iterator[str]:
    # A row is in quarantine if its key had a date with zeros when it was written; the key may be another one now.
    keyed = {name.lower() for _, columns in state.unique for name in columns}
    wanted = state.values()
    places = {str(name): place for place, (name, *_) in enumerate(state.columns)}
    unsure = {
        int(stored[places["rn"]] or 0)
        for stored in state.rows
        for name, place in places.items()
        if name.lower() in keyed and _NO_DATE.match(stored[place] or "")
    }
    for number in (found.keys() | wanted.keys()) - unsure:
        if found.get(number) != wanted.get(number):
            yield f"{name}, row {number}: {found.get(number)} for {wanted.get(number)}"


def _rows(mirror: Any) -> dict[int, dict[str, Any]]:
    rows = mirror.scan().to_arrow().to_pylist()
    assert len({row["rn"] for row in rows}) == len(rows)
    return {row["rn"]: {name: cell for name, cell in row.items() if name != layout.COMMIT_TS} for row in rows}


def _is_copy_of_held(name: Name, lake: FeedLake, stream: WorkloadStream) -> bool:
    """Whether a table that the lake does not know was made LIKE one that is held, or LIKE such a copy."""
    model = stream.models.get(name)
    if model is None:
        return False
    record = lake.records().get(model)
    return record.state != "live" if record is not None else True
