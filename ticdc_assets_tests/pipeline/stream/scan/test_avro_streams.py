"""The first pass over an Avro stream: true names of tables, and repeated changes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import pytest

from ticdc_assets.names.encoding import sanitised
from ticdc_assets.pipeline.stream.decode.task import VersionClock
from ticdc_assets.pipeline.stream.offsets.cursor import StreamCursor
from ticdc_assets.pipeline.stream.scan.avro import Repeats, true_names
from ticdc_assets.pipeline.stream.scan.result import StreamScan
from ticdc_assets.pipeline.stream.scan.scan import scan_all
from ticdc_assets.pipeline.stream.scan.state import StreamForm
from ticdc_assets.protocols.avro.table_names import name_in_topic
from ticdc_assets.protocols.protocol import DecoderOptions
from ticdc_assets.sources.capture import Message, MessagePosition, placed_messages
from ticdc_assets.sources.message_block import blocks_of
from ticdc_assets_tests.pipeline.small_streams import in_bulk_or_one_by_one
from ticdc_assets_tests.protocols.avro.registered_schemas import EXTENDED, ID, KEY, column, encoded, record
from ticdc_assets_tests.protocols.hostile.seeds import streams

RULE = "tidb_{schema}_{table}"


def repeats(*tsos: int) -> list[int]:
    """The places of what was sent again among the changes of one key: a row's commit_ts, 0 for a delete."""
    seen = Repeats()
    for ordinal, ts in enumerate(tsos):
        if ts:
            seen.row(ordinal, ts, b"k")
        else:
            seen.delete(ordinal, b"k")
    return sorted(seen.ordinals)


@pytest.mark.parametrize(
    ("tsos", "again"),
    [
        ((4, 0, 9, 0), []),
        ((4, 4), [1]),
        ((4, 0, 0), [2]),
        ((4, 0, 9, 4, 0, 9), [3, 4, 5]),  # from before the first row
        ((4, 0, 9, 0, 9, 12), [3, 4]),  # the second delivery begins with the delete between 4 and 9
        ((4, 0, 4, 0, 9), [1, 2]),  # its delete comes again, and counts there
        ((4, 0, 9, 0, 9, 0), [3, 4]),  # began with the first delete, or ended with the last: one stays either way
        ((9, 4, 0, 9), [1, 2, 3]),  # the start of the first delivery was read by an earlier run
    ],
)
def test_a_change_that_was_sent_again_counts_once(tsos: tuple[int, ...], again: list[int]):
    assert repeats(*tsos) == again


def misplaced(*changes: tuple[str, int]) -> int:
    """The number of misplaced rows among changes of several keys: a key, and a row's commit_ts or 0 for a delete."""
    seen = Repeats()
    for ordinal, (key, ts) in enumerate(changes):
        if ts:
            seen.row(ordinal, ts, key.encode())
        else:
            seen.delete(ordinal, key.encode())
    return seen.misplaced


ORDERED = (("a", 4), ("b", 5), ("b", 5), ("c", 5), ("a", 0), ("d", 9), ("b", 0), ("b", 12))


def test_rows_in_their_order_are_not_misplaced():
    assert misplaced(*ORDERED) == 0


@pytest.mark.parametrize("begin", range(8))
def test_a_delivery_from_anywhere_on_misplaces_no_row(begin: int):
    assert misplaced(*ORDERED, *ORDERED[begin:]) == 0


@pytest.mark.parametrize(
    ("changes", "rows"),
    [
        ((("a", 4), ("c", 0), ("d", 9), ("c", 6)), 1),  # the delete of c, before its row
        ((("a", 4), ("c", 0), ("e", 0), ("d", 9), ("c", 6), ("c", 7), ("e", 5)), 2),  # and c once more
        ((("a", 4), ("c", 5), ("c", 0), ("d", 9), ("c", 6)), 1),
        ((("a", 4), ("c", 0), ("d", 9), ("c", 9)), 0),  # of the transaction of d
        ((("a", 4), ("c", 0), ("d", 9), ("c", 4)), 0),  # sent again: an earlier run may have it
        ((("a", 4), ("c", 0), ("d", 9), ("c", 3)), 0),
        ((("a", 4), ("d", 9), ("c", 6)), 0),  # no delete
        ((("a", 4), ("a", 9), ("a", 0), ("a", 6)), 0),  # not newer than its key's: a repeat
    ],
)
def test_an_old_row_behind_its_own_delete_is_misplaced_unless_it_may_be_a_repeat(
    changes: tuple[tuple[str, int], ...], rows: int
):
    assert misplaced(*changes) == rows


@pytest.mark.parametrize("cut", range(1, 8))
@pytest.mark.parametrize("begin", range(8))
def test_wherever_a_delivery_ends_and_the_next_begins_a_key_has_its_last_row(cut: int, begin: int):
    """Writes and deletes of one key, sent up to `cut` and then from `begin` on: the same changes remain, in order."""
    changes = (4, 0, 9, 12, 0, 15, 0, 20)
    sent = (*changes[:cut], *changes[min(begin, cut) :])

    again = set(repeats(*sent))

    kept = [ts for ordinal, ts in enumerate(sent) if ordinal not in again]
    assert kept == list(changes)


@pytest.mark.parametrize(
    ("topic", "schema_name", "rule", "name"),
    [
        ("tidb_shop_odd-names", ("shop", "odd_names"), RULE, ("shop", "odd-names")),
        ("tidb_a_b_c_d", ("a_b", "c_d"), RULE, ("a_b", "c_d")),
        ("tidb_a.b_c", ("a_b", "c"), RULE, ("a.b", "c")),
        ("t-x.y", ("y", "x"), "t-{table}.{schema}", ("y", "x")),
        ("tidb_s_1a", ("s", "_1a"), RULE, ("s", "1a")),
        ("another", ("s", "t_1"), RULE, ("s", "t_1")),
        ("tidb_s_t", ("s", "t"), "no-places", ("s", "t")),
        ("st", ("s", "t"), "{schema}{table}", ("s", "t")),
    ],
)
def test_a_topic_tells_more_of_a_name_than_the_schema(
    topic: str, schema_name: tuple[str, str], rule: str, name: tuple[str, str]
):
    assert name_in_topic(topic, schema_name, [rule]) == name


def test_statements_tell_the_rest_of_a_name():
    names = {("t", "shop", "a_b"): ("shop", "a_b"), ("t", "shop", "new"): ("shop", "new")}

    found = true_names(names, [("Shop", "a b"), ("other", "a b")])

    assert found == {("t", "shop", "a_b"): ("Shop", "a b"), ("t", "shop", "new"): ("shop", "new")}


def test_tables_that_avro_writes_alike_are_distinguished_by_the_topic_or_not_at_all():
    names = {("one", "s", "a_b"): ("s", "a-b"), ("two", "s", "a_b"): ("s", "a_b")}

    assert true_names(names, [("s", "a-b"), ("s", "a b")]) == {
        ("one", "s", "a_b"): ("s", "a-b"),
        ("two", "s", "a_b"): ("s", "a b"),
    }
    assert true_names(names, [("s", "a?b"), ("s", "a b")])["two", "s", "a_b"] is None


def test_names_are_sanitised_as_ticdc_does():
    assert [sanitised(name) for name in ("a b", "naïve", "1st", 'q"x,y', "ok_1")] == [
        "a_b",
        "na_ve",
        "_1st",
        "q_x_y",
        "ok_1",
    ]


def beginning_with_a_delete(sent: Sequence[Message]) -> list[Message]:
    return list(sent[next(n for n, message in enumerate(sent) if message.value is None) :])


def without_deletes(sent: Sequence[Message]) -> list[Message]:
    return [message for message in sent if message.value is not None]


def with_damage(sent: Sequence[Message]) -> list[Message]:
    """Each fifth message has half of its value."""
    return [m._replace(value=m.value[: len(m.value) // 2]) if m.value and n % 5 == 0 else m for n, m in enumerate(sent)]


@pytest.mark.parametrize("dating", [VersionClock.COMMIT_TS, VersionClock.POSITION])
@pytest.mark.parametrize("part", [list, beginning_with_a_delete, without_deletes, with_damage])
def test_a_scan_in_bulk_tells_what_a_scan_message_by_message_tells(
    dating: VersionClock, part: Callable[[Sequence[Message]], list[Message]], monkeypatch: pytest.MonkeyPatch
):
    """Tables, names, keys, the commit_ts of deletes, repeats and schemas, of a recorded stream that is sent twice."""
    stream = streams()["avro-ext"]
    once = [message for _, message in placed_messages(stream.workload.root / "messages.jsonl")]
    ends = {m.partition: 1 + max(o.offset for o in once if o.partition == m.partition) for m in once}
    twice = part([*once, *(m._replace(offset=m.offset + ends[m.partition]) for m in once)])
    sent = [(MessagePosition(record=n), message) for n, message in enumerate(twice)]

    def scanned() -> StreamScan:
        return scan_all(blocks_of(sent), StreamForm("avro", stream.options, dating), StreamCursor())

    in_bulk_or_one_by_one(monkeypatch, True)
    bulk = scanned()
    in_bulk_or_one_by_one(monkeypatch, False)
    single = scanned()

    assert bulk.avro is not None
    assert single.avro is not None
    assert (bulk.tables, bulk.bad, bulk.statements) == (single.tables, single.bad, single.statements)
    assert (bulk.avro.newest, bulk.commits.newest) == (single.avro.newest, single.commits.newest)
    assert (bulk.avro.names, bulk.avro.keys, bulk.avro.checked) == (
        single.avro.names,
        single.avro.keys,
        single.avro.checked,
    )
    assert bulk.avro.placed == single.avro.placed
    assert bulk.avro.repeated() == single.avro.repeated()
    assert len(bulk.avro.repeated()) > len(twice) // 5
    assert bulk.commits.newest == bulk.avro.newest > 0
    assert bool(bulk.avro.placed) == any(message.value is None for message in twice)
    assert bool(bulk.bad) == (part is with_damage)
    assert [bulk.first_above(p, single.commits.newest // 2) for p in bulk.offsets.ends] == [
        single.first_above(p, single.commits.newest // 2) for p in single.offsets.ends
    ]


def test_a_message_that_cannot_be_decoded_is_kept_as_it_was_sent():
    """Its value; of a message without a value, its key."""
    stream = streams()["avro-ext"]
    sent = [message for _, message in placed_messages(stream.workload.root / "messages.jsonl")]
    row = next(message for message in sent if message.value and message.key)
    delete = next(message for message in sent if message.value is None and message.key)
    damaged = [row._replace(value=b"value", offset=5), delete._replace(key=b"key", offset=6)]

    scan = scan_all(
        blocks_of((MessagePosition(record=n), message) for n, message in enumerate(damaged)),
        StreamForm("avro", stream.options),
        StreamCursor(),
    )

    assert [(entry.path, entry.line, entry.raw) for entry in scan.bad] == [
        (f"{row.topic}/{row.partition}", 5, b"value"),
        (f"{delete.topic}/{delete.partition}", 6, b"key"),
    ]


@pytest.mark.parametrize("in_bulk", [True, False])
def test_a_key_that_changes_while_the_columns_stay_is_seen_in_the_schema_of_the_key(
    in_bulk: bool, monkeypatch: pytest.MonkeyPatch
):
    schemas = {1: KEY, 2: record(ID, {"name": "name", "type": column("TEXT", "string")}), 3: EXTENDED}
    row = {"id": 7, "name": "x", "_tidb_op": "c", "_tidb_commit_ts": 20, "_tidb_commit_physical_time": 0}
    value = encoded(3, schemas[3], row)
    sent = [Message("t", 0, n, encoded(key_id, schemas[key_id], row), value, 0) for n, key_id in enumerate((1, 1, 2))]
    options = DecoderOptions(schemas={number: json.dumps(schema) for number, schema in schemas.items()}.__getitem__)
    in_bulk_or_one_by_one(monkeypatch, in_bulk)

    scan = scan_all(
        blocks_of((MessagePosition(record=n), message) for n, message in enumerate(sent)),
        StreamForm("avro", options, VersionClock.POSITION),
        StreamCursor(),
    )

    assert [(event.commit_ts, event.after.key) for event in scan.statements if event.after] == [
        (1, ("id",)),
        (3, ("id", "name")),
    ]
