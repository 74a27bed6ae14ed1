"""A scan of a log with heads finds what a scan of the messages finds, and reads few bodies."""

from __future__ import annotations

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
from ticdc_assets.protocols.columnar.message_rows import Messages
from ticdc_assets.sources.capture import Message, MessagePosition, messages
from ticdc_assets.sources.message_block import Bodies, MessageBlock, MessageHeads, blocks_of
from ticdc_assets_tests.fixtures import Workload, workloads
from ticdc_assets_tests.pipeline.lakes import FeedLake

Damage = Callable[[Sequence[Message]], list[Message]]
READ_FROM_HEADS = ("canal-json-tidb", "simple-json", "simple-avro", "debezium-tidb-noschema")
DELETES_ARE_KEYS = "canal-json-tidb-only-updated"
STREAMS = [
    workload
    for prefix in ("canal-json-tidb", "simple", "debezium")
    for workload in workloads(prefix, "seed1")
    if not workload.name.startswith(DELETES_ARE_KEYS)
]


def with_cut_values(sent: Sequence[Message]) -> list[Message]:
    """Each fifth message has half of its value."""
    return [m._replace(value=m.value[: len(m.value) // 2]) if m.value and n % 5 == 0 else m for n, m in enumerate(sent)]


def the_last_two_thirds(sent: Sequence[Message]) -> list[Message]:
    return list(sent[len(sent) // 3 :])


class Counted:
    """Heads for blocks of messages, and how many bodies a scan has read of them."""

    def __init__(self, form: StreamForm) -> None:
        self._form = form
        self.read = 0

    def __call__(self, blocks: Iterable[MessageBlock]) -> Iterator[MessageBlock]:
        for block in blocks:
            both = Messages(block.keys, block.values)
            heads = message_heads(self._form.protocol, self._form.options, both, block.message)
            yield replace(block, bodies=Bodies(lambda both=both: self._of(both)), heads=MessageHeads(*heads))

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
        *(scan.commits.newest, scan.commits.last_offsets, maxima, scan.offsets.ends, offsets),
    )


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


@pytest.mark.parametrize(
    "form",
    [
        StreamForm("open-protocol", None),
        StreamForm("avro", None),
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
    workload = next(w for w in workloads(variant, "seed1") if w.name.startswith(f"{variant}/"))
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
