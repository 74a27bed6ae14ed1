"""What a stream with gaps must still tell: every gap of the project's table as what it makes of a change.

`as_sent` turns the changes of a log into those that a reader of the stream can know, gap by gap, and leaves all
else as it is. Only where a gap makes something uncertain (`as_read`) is the reader's side turned too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

from ticdc_assets.config import read_sink
from ticdc_assets.protocols.events import Op, RowEvent
from ticdc_assets.protocols.protocol import DecoderOptions
from ticdc_assets.protocols.registry import REGISTRY
from ticdc_assets.schema.model import Column, Kind, TableSchema
from ticdc_assets.sources.capture import placed_messages
from ticdc_assets_tests.fixtures import Workload
from ticdc_assets_tests.pipeline.lakes import expected_changes
from ticdc_assets_tests.protocols.happened import Change, tables
from ticdc_assets_tests.protocols.limitations import Limitation
from ticdc_assets_tests.truth import comparable, lake_value

Image = tuple[tuple[str, Any], ...]

_PLAIN = {
    "open-protocol": DecoderOptions(),
    "simple": DecoderOptions(),
    "canal-json": DecoderOptions(),
}


@dataclass(frozen=True)
class Log:
    """A workload's log: the shape a change had, and the first name of its table."""

    workload: Workload

    @cached_property
    def _tables(self) -> Any:
        return tables(self.workload.events)

    def shape(self, change: Change) -> TableSchema:
        return self._tables.as_of(change.schema, change.table, change.commit_ts)

    @cached_property
    def _name_periods(self) -> list[tuple[int, tuple[str, str], tuple[str, str]]]:
        """(since, name, first name) of every table under each of its names, in order."""
        found: list[tuple[int, tuple[str, str], tuple[str, str]]] = []
        first: dict[tuple[str, str], tuple[str, str]] = {}
        for event in self.workload.events:
            if event["kind"] != "ddl" or event.get("replay"):
                continue
            name = (event["schema"], event["table"])
            if event["type"] == "create table":
                first[name] = name
            elif event["type"] == "rename table":
                new = (event.get("new_schema", name[0]), event["new_table"])
                first[new] = first.pop(name, name)
                name = new
            if name in first:
                found.append((event["commit_ts"], name, first[name]))
        return found

    @cached_property
    def _cut_deletes(self) -> set[tuple[Any, ...]]:
        """The deletes of which the stream sent only the key, being large."""
        protocol = str(read_sink(self.workload.variant["sink_uri"], self.workload.variant["config"])[0].protocol)
        known, found = REGISTRY[protocol], set()
        for _, message in placed_messages(self.workload.root / "messages.jsonl"):
            for event in known.decode(message.key, message.value, "", _PLAIN[protocol]):
                if isinstance(event, RowEvent) and event.op is Op.DELETE and event.handle_only and not event.claim:
                    shape = self._tables.as_of(event.schema, event.table, event.commit_ts)
                    columns = [shape.column(name) for name in event.wire]
                    cells = [comparable(known.value(c, event.wire[c.name], self.workload.time_zone)) for c in columns]
                    key = sorted(zip((c.name for c in columns), cells, strict=True))
                    found.add((event.schema, event.table, event.commit_ts, tuple(key)))
        return found

    def is_cut(self, change: Change) -> bool:
        """Whether a delete was sent as its key, its row being large."""
        key = self.shape(change).key
        key_values = tuple(pair for pair in change.new or () if pair[0] in key)
        return (change.schema, change.table, change.commit_ts, key_values) in self._cut_deletes

    def first_name(self, change: Change) -> tuple[str, str]:
        name = (change.schema, change.table)
        return [one for since, now, one in self._name_periods if now == name and since < change.commit_ts][-1]


# -- what a gap makes of a change: the change as far as sent, as it was, its log ----------------------------------


def _without_commit_ts(sent: Change, true: Change, log: Log) -> Change:
    return sent._replace(commit_ts=None)


def _without_old_values(sent: Change, true: Change, log: Log) -> Change:
    return sent._replace(old=None)


def _as_upsert(sent: Change, true: Change, log: Log) -> Change:
    return sent._replace(op=sent.op.replace("U", "I"))


def _deleted_is_key(sent: Change, true: Change, log: Log) -> Change:
    if true.op != "D":
        return sent
    key = log.shape(true).key
    return sent._replace(new=tuple((name, cell if name in key else None) for name, cell in sent.new))


def _cut_delete_is_key(sent: Change, true: Change, log: Log) -> Change:
    return _deleted_is_key(sent, true, log) if true.op == "D" and log.is_cut(true) else sent


def _avro_delete(sent: Change, true: Change, log: Log) -> Change:
    """Only the cells that are sent: which columns the table had at the delete may not be known."""
    if true.op != "D":
        return sent
    key = _deleted_is_key(sent, true, log)
    return key._replace(new=tuple(pair for pair in key.new if pair[1] is not None), commit_ts=None)


def _avro_delete_as_read(sent: Change, true: Change, log: Log) -> Change:
    return sent if sent.op != "D" else sent._replace(new=tuple(p for p in sent.new if p[1] is not None))


def _avro_names(sent: Change, true: Change, log: Log) -> Change:
    schema, table = (re.sub(r"[^A-Za-z0-9._-]", "_", name) for name in (sent.schema, sent.table))
    new = tuple(sorted((re.sub(r"[^A-Za-z0-9_]", "_", name), cell) for name, cell in sent.new))
    return sent._replace(schema=schema, table=table, new=new)


def _avro_types(sent: Change, true: Change, log: Log) -> Change:
    as_text = "avro-decimal-handling-mode=string" in log.workload.variant["sink_uri"]
    new = tuple((n, f"{c:f}" if as_text and isinstance(c, Decimal) else c) for n, c in sent.new)
    return sent._replace(new=new, partitioned=False)


def _null_as_default(sent: Change, true: Change, log: Log) -> Change:
    shape = log.shape(true)

    def fill(image: Image | None) -> Image | None:
        return image and tuple((n, _default(shape.column(n), log) if c is None else c) for n, c in image)

    return sent._replace(new=fill(sent.new), old=fill(sent.old))


def _default(column: Column | None, log: Log) -> Any:
    if column is None or column.default is None:
        return None
    text = str(column.default.value).removeprefix("_UTF8MB4").strip("'")
    if column.type.kind in (Kind.ENUM, Kind.SET):
        return text
    return comparable(lake_value(column.type, text, log.workload.time_zone))


AS_SENT: Mapping[str, Callable[[Change, Change, Log], Change]] = {
    "csv.commit-ts": _without_commit_ts,
    "csv.old-values": _without_old_values,
    "canal-json.commit-ts": _without_commit_ts,
    "canal-json.deleted-row": _deleted_is_key,
    "canal-json.large-deleted-row": _cut_delete_is_key,
    "open-protocol.old-values": _without_old_values,
    "open-protocol.operation": _as_upsert,
    "open-protocol.deleted-row": _deleted_is_key,
    "open-protocol.large-deleted-row": _cut_delete_is_key,
    "simple.large-deleted-row": _cut_delete_is_key,
    "avro.deleted-row": _avro_delete,
    "avro.old-values": _without_old_values,
    "avro.commit-ts": _without_commit_ts,
    "avro.operation": _as_upsert,
    "avro.types": _avro_types,
    "avro.names": _avro_names,
    "debezium.null": _null_as_default,
}
"""What is left of a change, by the gap's id, in the order in which they are taken away."""

READ: Mapping[str, Callable[[Change, Change, Log], Change]] = {
    "open-protocol.operation": _as_upsert,
    "avro.deleted-row": _avro_delete_as_read,
}
"""Gaps that leave the reader something uncertain: an operation that may be another, columns that may be more."""


def as_sent(wanted: Iterable[Change], gaps: Iterable[Limitation], log: Log) -> Counter[Change]:
    """The changes of a log as a stream with these gaps carries them."""
    held = {gap.id for gap in gaps}
    found: Counter[Change] = Counter()
    for true in wanted:
        sent = true
        for name in AS_SENT:
            if name in held:
                sent = AS_SENT[name](sent, true, log)
        if sent.commit_ts is None and "avro.statements" not in held:
            # A changelog names its source table, not the names that the table had.
            schema, table = log.first_name(true)
            sent = sent._replace(schema=schema, table=table)
        found[sent] += 1
    return found


def as_read(found: Counter[Change], wanted: Counter[Change], gaps: Iterable[Limitation], log: Log) -> Counter[Change]:
    """What was read, with all that a gap makes uncertain put as uncertain."""
    held = {gap.id for gap in gaps}
    read: Counter[Change] = Counter()
    for change, count in found.items():
        seen = change
        for name, turn in READ.items():
            seen = turn(seen, change, log) if name in held else seen
        read[seen] += count
    return _with_lost_digits(read, wanted, log) if "debezium.decimal" in held else read


def _with_lost_digits(read: Counter[Change], wanted: Counter[Change], log: Log) -> Counter[Change]:
    """DECIMALs of more than 15 digits that are as near as a float can be to the true ones count as those."""
    true = {_identity(change, log): change for change in wanted}
    found: Counter[Change] = Counter()
    for change, count in read.items():
        meant = true.get(_identity(change, log))
        images = ((change.new, meant.new), (change.old, meant.old)) if meant else ()
        restored = [a and b and tuple(_restored(one, other, log.shape(change)) for one, other in zip(a, b, strict=True))
                  for a, b in images]  # fmt: skip
        found[change._replace(new=restored[0], old=restored[1]) if meant else change] += count
    return found


def _identity(change: Change, log: Log) -> tuple[Any, ...]:
    key = log.shape(change).key
    return (*change[:4], tuple(pair for pair in change.new if pair[0] in key))


def _restored(seen: tuple[str, Any], true: tuple[str, Any], shape: TableSchema) -> tuple[str, Any]:
    column = shape.column(true[0])
    if column is None or column.type.kind is not Kind.DECIMAL or seen[1] is None or true[1] is None:
        return seen
    one, other = Decimal(seen[1]), Decimal(true[1])
    is_long = len(other.as_tuple().digits) > 15
    return true if is_long and abs(one - other) <= abs(other) * Decimal("1e-15") else seen


def expected(workload: Workload) -> list[Change]:
    """Every change of a log, once."""
    return list(expected_changes(workload, True).elements())
