"""The results of both decoders of storage files in one form, and the expected rows from the log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from ticdc_assets.protocols.columnar.raw_rows import BadRecord, Incomplete, RawRows
from ticdc_assets.protocols.events import Op, RowEvent
from ticdc_assets.protocols.values import text_columns
from ticdc_assets.protocols.values.text import TextForms, value
from ticdc_assets.schema.model import TableSchema
from ticdc_assets_tests.fixtures import Workload
from ticdc_assets_tests.protocols import happened

Image = tuple[Any, ...]


class Row(NamedTuple):
    """A change of a file; images in column order."""

    line: int
    op: str
    commit_ts: int | None
    commit_ms: int | None
    new: Image
    old: Image | None


class Typed(NamedTuple):
    """A change with typed values, images as sorted pairs."""

    schema: str
    table: str
    op: str
    commit_ts: int | None
    new: tuple[tuple[str, Any], ...]
    old: tuple[tuple[str, Any], ...] | None


def of_reference(records: Iterable[tuple[int, RowEvent] | BadRecord | Incomplete], columns: Image) -> list[Row] | None:
    """The rows of a file, None where the reference reports anything else."""
    rows = []
    for record in records:
        if isinstance(record, BadRecord | Incomplete):
            return None
        line, event = record
        if not {*event.wire, *(event.before or ())} <= set(columns):
            return None
        full = event.full_before
        new = tuple(event.wire.get(name) for name in columns)
        old = None if full is None else tuple(full.get(name) for name in columns)
        rows.append(Row(line, str(event.op), event.commit_ts, event.time.commit_ms, new, old))
    return rows


def of_bulk(batches: Iterable[RawRows]) -> list[Row]:
    return [row for batch in batches for row in _of_batch(batch)]


def _of_batch(batch: RawRows) -> Iterator[Row]:
    new = list(zip(*(array.to_pylist() for array in batch.wire), strict=True))
    old: list[Any] = [None] * len(batch)
    if batch.before is not None and batch.has_before is not None:
        images = zip(*(array.to_pylist() for array in batch.before), strict=True)
        flags = batch.has_before.to_pylist()
        old = [image if has else _nothing(image) for has, image in zip(flags, images, strict=True)]
    heads = (array.to_pylist() for array in (batch.line, batch.op, batch.commit_ts, batch.commit_ms))
    for head, now, then in zip(zip(*heads, strict=True), new, old, strict=True):
        yield Row._make((*head, now, then))


def _nothing(image: Image) -> None:
    assert set(image) == {None}


def folders(workload: Workload, extension: str) -> Iterator[tuple[Path, str, str, TableSchema]]:
    """Every data file with its table's name and the shape of its folder's version."""
    shapes = happened.tables(workload.events)
    data = workload.root / "data"
    for path in sorted(data.rglob(f"CDC*.{extension}")):
        schema, table, version, *_ = path.relative_to(data).parts
        yield path, schema, table, shapes.as_of(schema, table, int(version) + 1)


def typed(batches: Iterable[RawRows], source: tuple[str, str], shape: TableSchema, forms: TextForms) -> Iterator[Typed]:
    """The rows of the bulk form with their values typed column by column, each compared with the reference's value."""
    for batch in batches:
        new = _typed_columns(batch.columns, batch.wire, shape, forms)
        old = None if batch.before is None else _typed_columns(batch.columns, batch.before, shape, forms)
        has = [False] * len(batch) if batch.has_before is None else batch.has_before.to_pylist()
        for i, (op, commit_ts) in enumerate(zip(batch.op.to_pylist(), batch.commit_ts.to_pylist(), strict=True)):
            before = _pairs(old, i) if has[i] and old is not None else None
            yield Typed(*source, op, commit_ts, _pairs(new, i), before)


def _typed_columns(
    names: tuple[str, ...], texts: tuple[pa.Array, ...], shape: TableSchema, forms: TextForms
) -> dict[str, list[Any]]:
    columns = {}
    for name, array in zip(names, texts, strict=True):
        column = shape.column(name)
        assert column is not None
        found = text_columns.column(column.type, array, forms).to_pylist()
        assert found == [value(column.type, text, forms) for text in array.to_pylist()]
        columns[name] = found
    return columns


def _pairs(columns: dict[str, list[Any]], row: int) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted((name, frozen(values[row])) for name, values in columns.items()))


def frozen(given: Any) -> Any:
    return tuple(given) if isinstance(given, list) else given


def expected(workload: Workload, with_old: bool, with_commit_ts: bool = True, split: bool = True) -> list[Typed]:
    """Every change of the log as a storage file carries it."""
    changes = happened.changes(workload) if split else _unsplit(workload)
    return [
        Typed(
            change.schema,
            change.table,
            change.op,
            change.commit_ts if with_commit_ts else None,
            change.new or (),
            change.old if with_old and change.op == Op.UPDATE else None,
        )
        for change in changes
    ]


def _unsplit(workload: Workload) -> Iterator[happened.Change]:
    shapes, ops = happened.tables(workload.events), {"insert": "I", "update": "U", "delete": "D"}
    for event in workload.events:
        if event["kind"] == "dml":
            name = (event["schema"], event["table"])
            shape = shapes.as_of(*name, event["commit_ts"])
            old, new = (happened.image(shape, event.get(k), workload.time_zone) for k in ("pre", "row"))
            yield happened.Change(*name, ops[event["op"]], event["commit_ts"], new or old, old)
