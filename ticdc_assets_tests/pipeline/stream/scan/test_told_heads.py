"""A scan of a log with heads finds what a scan of the messages finds, and reads few bodies."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.landing.message_heads import message_heads
from ticdc_assets.pipeline.stream.context import StreamContext
from ticdc_assets.pipeline.stream.decode.task import VersionClock
from ticdc_assets.pipeline.stream.offsets.cursor import StreamCursor
from ticdc_assets.pipeline.stream.scan.result import StreamScan
from ticdc_assets.pipeline.stream.scan.scan import scan_all
from ticdc_assets.pipeline.stream.scan.state import StreamForm
from ticdc_assets.protocols.avro import decoder as confluent_avro
from ticdc_assets.protocols.columnar.message_rows import Messages
from ticdc_assets.protocols.protocol import DecoderOptions
from ticdc_assets.sources.capture import Message, MessagePosition, messages
from ticdc_assets.sources.message_block import Bodies, MessageBlock, blocks_of
from ticdc_assets_tests.fixtures import Workload, workloads
from ticdc_assets_tests.pipeline.lakes import FeedLake

Damage = Callable[[Sequence[Message]], list[Message]]
READ_FROM_HEADS = (
    "canal-json-tidb",
    "simple-json",
    "simple-avro",
    "debezium-tidb-noschema",
    "open",
    "avro",
    "avro-ext",
)
DELETES_ARE_KEYS = ("canal-json-tidb-only-updated", "open-only-updated-delete-key")
VERSION, NO_BODY = (1).to_bytes(8, "big"), bytes(8)
STREAMS = [
    workload
    for prefix in ("canal-json-tidb", "simple", "debezium", "open", "avro")
    for workload in workloads(prefix, "seed1")
    if not workload.name.startswith(DELETES_ARE_KEYS)
]


def with_cut_values(sent: Sequence[Message]) -> list[Message]:
    """Each fifth message has half of its value."""
    return [m._replace(value=m.value[: len(m.value) // 2]) if m.value and n % 5 == 0 else m for n, m in enumerate(sent)]


def the_last_two_thirds(sent: Sequence[Message]) -> list[Message]:
    return list(sent[len(sent) // 3 :])


def joined(sent: Sequence[Message]) -> list[Message]:
    """The messages of each partition in threes, as one message of the Open Protocol each."""
    found = []
    for partition in sorted({(m.topic, m.partition) for m in sent}):
        own = [m for m in sent if (m.topic, m.partition) == partition]
        for three in (own[at : at + 3] for at in range(0, len(own), 3)):
            key = VERSION + b"".join((m.key or b"")[len(VERSION) :] for m in three)
            found.append(three[-1]._replace(key=key, value=b"".join(m.value or NO_BODY for m in three)))
    return found


def open_row(number: int, *, handle_only: bool) -> Message:
    """A row of a table with two columns; with only its key `handle_only`."""
    head = {"ts": 400_000_000_000_000_000 + number, "scm": "shop", "tbl": "t", "t": 1}
    name = {} if handle_only else {"name": {"t": 15, "f": 64, "v": "a"}}
    row = {"u": {"id": {"t": 3, "h": True, "f": 11, "v": number}, **name}}
    key, value = (json.dumps(part).encode() for part in (head | ({"ohk": True} if handle_only else {}), row))
    framed = [len(part).to_bytes(8, "big") + part for part in (key, value)]
    return Message("oracle", 0, number, VERSION + framed[0], framed[1], number)


class Counted:
    """Heads for blocks of messages, and how many bodies a scan has read of them."""

    def __init__(self, form: StreamForm) -> None:
        self._form = form
        self.read = 0

    def __call__(self, blocks: Iterable[MessageBlock]) -> Iterator[MessageBlock]:
        for block in blocks:
            both = Messages(block.keys, block.values)
            heads = message_heads(self._form.protocol, self._form.options, both, block.message)
            keys = block.keys if self._form.protocol == "avro" else None
            yield replace(block, bodies=Bodies(lambda both=both: self._of(both), keys), heads=heads)

    def _of(self, both: Messages) -> tuple[pa.Array, pa.Array]:
        self.read += len(both)
        return both.keys, both.values


def form_of(lake: Lake) -> StreamForm:
    return StreamContext(lake).form(None, None)


def found(scan: StreamScan) -> tuple[object, ...]:
    maxima = {partition: scan.first_above(partition, scan.commits.newest // 2) for partition in scan.offsets.ends}
    offsets = {partition: scan.offsets.ledger.ranges(partition) for partition in scan.offsets.ledger.partitions}
    return (
        *(scan.watermarks, scan.tables, scan.statements, scan.bad, scan.marks, scan.messages, scan.new_messages),
        *(scan.avro and (scan.avro.newest, scan.avro.names, scan.avro.checked, scan.avro.keys, scan.avro.placed),),
        *(scan.avro and (scan.avro.misplaced(), scan.avro.repeated()),),
        *(scan.commits.newest, scan.commits.last_offsets, maxima, scan.offsets.ends, offsets),
    )


@pytest.mark.variants(20)
@pytest.mark.parametrize("sent", [list, with_cut_values, the_last_two_thirds])
@pytest.mark.parametrize("workload", STREAMS, ids=lambda workload: workload.name)
def test_heads_tell_a_scan_what_messages_tell(workload: Workload, sent: Damage, tmp_path: Path):
    form = form_of(FeedLake(workload, tmp_path).lake)
    stream = sent(list(messages(workload.root / "messages.jsonl")))
    placed = [(MessagePosition(record=number), message) for number, message in enumerate(stream)]
    heads = Counted(form)

    decoded = scan_all(blocks_of(placed), form, StreamCursor())
    told = scan_all(heads(blocks_of(placed)), form, StreamCursor())

    assert found(told) == found(decoded)
    assert form.heads_suffice


@pytest.mark.parametrize("workload", [w for w in STREAMS if w.name.startswith("open")], ids=lambda w: w.name)
def test_heads_tell_of_statements_watermarks_and_rows_of_several_tables_in_one_message(
    workload: Workload, tmp_path: Path
):
    form = form_of(FeedLake(workload, tmp_path).lake)
    stream = joined(list(messages(workload.root / "messages.jsonl")))
    blocks = list(blocks_of((MessagePosition(record=number), message) for number, message in enumerate(stream)))

    decoded, told = scan_all(blocks, form, StreamCursor()), scan_all(Counted(form)(blocks), form, StreamCursor())
    for scan in (decoded, told):  # of several rows of one commit, any may tell the columns
        scan.tables.inferred = {name: replace(event, where="") for name, event in scan.tables.inferred.items()}

    assert found(told) == found(decoded)
    assert not told.bad
    assert told.statements
    assert told.tables.first_rows


def test_columns_are_inferred_from_the_first_whole_row_after_many_that_are_not():
    form = StreamForm("open-protocol", DecoderOptions())
    stream = [open_row(number, handle_only=number < 20) for number in range(30)]
    blocks = list(blocks_of((MessagePosition(record=number), message) for number, message in enumerate(stream)))

    decoded, told = scan_all(blocks, form, StreamCursor()), scan_all(Counted(form)(blocks), form, StreamCursor())

    assert found(told) == found(decoded)
    assert [c.name for c in told.tables.inferred["shop", "t"].after.columns] == ["id", "name"]  # type: ignore[union-attr]


def test_a_schema_that_the_registry_has_lost_since_a_landing_spoils_its_messages_alone(tmp_path: Path):
    workload = next(w for w in workloads("avro-ext", "seed1") if w.name.startswith("avro-ext/"))
    form = form_of(FeedLake(workload, tmp_path).lake)
    stream = list(messages(workload.root / "messages.jsonl"))
    placed = [(MessagePosition(record=number), message) for number, message in enumerate(stream)]
    lost = {confluent_avro.schema_ids(stream[at].key, stream[at].value, "")[which] for at, which in ((0, 0), (-1, 1))}

    def schemas(number: int) -> str:
        if number in lost:
            raise LookupError
        return str(known(number))

    known, landed = form.options.schemas, list(Counted(form)(blocks_of(placed)))
    form = replace(form, options=DecoderOptions(schemas=schemas))
    decoded, told = scan_all(blocks_of(placed), form, StreamCursor()), scan_all(landed, form, StreamCursor())

    assert found(told) == found(decoded)
    assert 0 < len(told.bad) < len(stream)


@pytest.mark.parametrize(
    "form",
    [
        StreamForm("open-protocol", None, VersionClock.POSITION),
        StreamForm("avro", None, VersionClock.POSITION, until=5),
        StreamForm("canal-json", None, VersionClock.COMMIT_MS),
        StreamForm("canal-json", None, deletes_are_keys=True),
        StreamForm("simple", None, until=5),
    ],
)
def test_heads_do_not_suffice_where_they_leave_a_question_open(form: StreamForm):
    assert not form.heads_suffice


def test_other_messages_at_consumed_offsets_are_found_by_their_digests(tmp_path: Path):
    workload = next(w for w in workloads("canal-json-tidb", "seed1") if w.name.startswith("canal-json-tidb/"))
    form = form_of(FeedLake(workload, tmp_path).lake)
    placed = [(MessagePosition(record=n), m) for n, m in enumerate(messages(workload.root / "messages.jsonl"))]
    first = scan_all(Counted(form)(blocks_of(placed)), form, StreamCursor())
    [partition, *_] = sorted(first.offsets.ends)
    end = first.offsets.ends[partition]
    digests = {partition: first.offsets.ledger.digests(partition, end)}
    changed = [(place, m._replace(value=b"other" if not m.offset else m.value)) for place, m in placed]

    same, other = (
        scan_all(Counted(form)(blocks_of(sent)), form, StreamCursor(digests=digests)).offsets.ledger
        for sent in (placed, changed)
    )

    assert digests[partition]
    assert list(same.faults(StreamCursor({partition: end}), (), {}, in_order=False)) == []
    assert [f.partition for f in other.faults(StreamCursor({partition: end}), (), {}, in_order=False)] == [partition]


@pytest.mark.parametrize("variant", READ_FROM_HEADS)
def test_a_block_of_rows_and_watermarks_of_known_tables_is_not_read(variant: str, tmp_path: Path):
    workload = next((w for w in workloads(variant, "seed1") if w.name.startswith(f"{variant}/")), None)
    if workload is None:
        pytest.skip("only the larger set of streams has this variant")
    form = form_of(FeedLake(workload, tmp_path).lake)
    assert form.heads_suffice
    stream = list(messages(workload.root / "messages.jsonl"))
    first = [(MessagePosition(record=number), message) for number, message in enumerate(stream)]
    heads = Counted(form)
    head = [block for block in heads(blocks_of(first)) if block.heads is not None]
    plain = [kind in ("row", "watermark") for block in head for kind in block.heads.kinds.to_pylist()]  # type: ignore[union-attr]
    again = [m._replace(offset=m.offset + 10**6) for m, is_plain in zip(stream, plain, strict=True) if is_plain]
    second = [(MessagePosition(record=10**6 + number), message) for number, message in enumerate(again)]

    scan = scan_all([*head, *heads(blocks_of(second))], form, StreamCursor())

    assert heads.read == len(stream)
    assert scan.new_messages == len(stream) + len(again)
