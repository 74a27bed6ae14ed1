"""Large rows that came as their handle key: completed from upstream, else they wait, and only their tables do."""

from __future__ import annotations

import json
import struct
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets.pipeline.stream.decode import worker as message_decode
from ticdc_assets.protocols.events import RowEvent
from ticdc_assets.sources.upstream import rows as upstream
from ticdc_assets.sources.upstream.rows import ConnectionPolicy
from ticdc_assets_tests.fixtures import Workload, of_full_set, read_jsonl, workloads
from ticdc_assets_tests.pipeline.changelog.compared import difference
from ticdc_assets_tests.pipeline.gaps import Log, as_sent, expected
from ticdc_assets_tests.pipeline.lakes import FeedLake, expected_changes
from ticdc_assets_tests.pipeline.stream.conditions import gaps_of
from ticdc_assets_tests.pipeline.upstreams import is_cut
from ticdc_assets_tests.protocols.happened import Change, parse_create, tables
from ticdc_assets_tests.sources.upstream.tidb_server import HANG, Fault, Snapshots, TidbServer

CUT = [w for w in workloads() if is_cut(w)]
ONE = [w for w in CUT if w.name == "canal-json-tidb-handle-key-only/seed1"]
Name = tuple[str, str]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = ConnectionPolicy(connect_s=2, answer_s=1, tries=2, pause_s=0.01)
    monkeypatch.setattr(upstream, "ConnectionPolicy", lambda: quick)


def waiting(lake: FeedLake) -> dict[Name, str]:
    """The tables that wait, with their notes."""
    return {name: record.note for name, record in lake.records().items() if record.state == "waiting"}


def whole(workload: Workload, lake: FeedLake) -> Counter[Change]:
    return as_sent(expected(workload), gaps_of(lake.lake.changefeed), Log(workload))


def apart_from(changes: Counter[Change], names: dict[Name, str]) -> Counter[Change]:
    return Counter(c for c in changes.elements() if (c.schema, c.table) not in names)


# -- workloads --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workload", CUT, ids=lambda w: w.name)
def test_without_an_upstream_large_rows_hold_their_table_with_a_reason(workload: Workload, tmp_path: Path):
    lake = FeedLake(workload, tmp_path / "lake")

    lake.publish()

    held = waiting(lake)
    assert held
    assert all("only its handle key" in note and "`upstream`" in note for note in held.values())
    found, wanted = lake.changes(), apart_from(expected_changes(workload, True), held)
    assert found == wanted, difference(found, wanted)


FAULTS: dict[str, tuple[Callable[[str], Fault | None], str]] = {
    "hangs": (lambda statement: HANG, "answers in time"),
    "has collected the snapshot": (lambda s: (8055, "old") if "tidb_snapshot" in s else None, "GC safe point"),
    "has not the table": (lambda s: (1146, "none") if s.startswith("SELECT") else None, "error 1146"),
    "is no TiDB": (lambda s: (1193, "unknown") if "tidb_snapshot" in s else None, "a TiDB server"),
}


@pytest.mark.parametrize("workload", ONE, ids=lambda w: w.name)
@pytest.mark.parametrize("what", FAULTS)
def test_while_upstream_fails_only_their_tables_wait_and_the_next_run_completes_them(
    workload: Workload, what: str, tmp_path: Path
):
    on, words = FAULTS[what]
    with TidbServer(Snapshots.of(workload), on).running() as server:
        lake = FeedLake(workload, tmp_path / "lake", upstream=server.config)
        lake.publish()
        held, found = waiting(lake), lake.changes()
        server.on = lambda statement: None
        lake.publish()

    assert held
    assert all(words in note and "expected" in note for note in held.values())
    wanted = whole(workload, lake)
    assert found == apart_from(wanted, held)
    assert found != wanted
    assert waiting(lake) == {}
    assert lake.changes() == wanted, difference(lake.changes(), wanted)


@pytest.mark.parametrize("workload", ONE, ids=lambda w: w.name)
def test_an_upstream_that_is_another_cluster_has_no_such_rows(workload: Workload, tmp_path: Path):
    snapshots = Snapshots.of(workload)
    snapshots.rows.clear()
    with TidbServer(snapshots).running() as server:
        lake = FeedLake(workload, tmp_path / "lake", upstream=server.config)
        lake.publish()

    assert waiting(lake)
    assert all("none of that key" in note for note in waiting(lake).values())


@pytest.mark.parametrize("workload", ONE, ids=lambda w: w.name)
def test_a_deleted_row_is_not_asked_for(workload: Workload, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    asked = []
    is_cut_row = RowEvent.is_cut.fget  # type: ignore[attr-defined]
    monkeypatch.setattr(RowEvent, "is_cut", property(lambda e: asked.append(e) or is_cut_row(e)))
    with TidbServer(Snapshots.of(workload)).running() as server:
        FeedLake(workload, tmp_path / "lake", upstream=server.config).publish()
    deleted = {str(e.commit_ts - d) for e in asked if e.op == "D" and e.handle_only for d in (0, 1)}

    others = {str(e.commit_ts - d) for e in asked if e.op != "D" and e.handle_only for d in (0, 1)}
    read = {s.split("'")[1] for s in server.asked if "tidb_snapshot" in s}
    assert deleted - others
    assert read <= others


@pytest.mark.parametrize("workload", ONE, ids=lambda w: w.name)
def test_rows_that_are_too_many_to_be_held_are_written_a_few_at_a_time(
    workload: Workload, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(message_decode, "COMPLETED_BYTES", 1)
    with TidbServer(Snapshots.of(workload)).running() as server:
        lake = FeedLake(workload, tmp_path / "lake", upstream=server.config)
        lake.publish()

    wanted = whole(workload, lake)
    assert lake.changes() == wanted, difference(lake.changes(), wanted)


# -- every row of a stream cut ----------------------------------------------------------------------------------------

EVERY = [w for w in workloads("simple-json", "seed1") if w.root.parent.name in ("simple-json", "simple-json-checksum")]


def cut_everywhere(workload: Workload, folder: Path) -> Workload:
    """The same stream, had no row fit into a message: what Simple then sends of an insert or update."""
    folder.mkdir()
    shapes = tables(workload.events)
    with (folder / "messages.jsonl").open("w") as capture:
        for line in read_jsonl(workload.root / "messages.jsonl"):
            message = json.loads(b64decode(line["value"]))
            if message.get("type") in ("INSERT", "UPDATE"):
                key = shapes.as_of(message["database"], message["table"], message["commitTs"]).key
                for image in ("data", "old"):
                    if message.get(image):
                        message[image] = {name: cell for name, cell in message[image].items() if name in key}
                line["value"] = b64encode(json.dumps({**message, "handleKeyOnly": True}).encode()).decode()
            capture.write(json.dumps(line) + "\n")
    (folder / "variant.json").write_text(json.dumps({**workload.variant, "log": str(workload.log)}))
    return Workload(folder)


@pytest.mark.parametrize("workload", EVERY, ids=lambda w: w.name)
def test_a_stream_of_nothing_but_keys_gives_what_happened(workload: Workload, tmp_path: Path):
    keys = cut_everywhere(workload, tmp_path / "keys")
    with TidbServer(Snapshots.of(workload)).running() as server:
        lake = FeedLake(keys, tmp_path / "lake", upstream=server.config)
        lake.publish()

    assert [q.reason for q in lake.lake.control.quarantined()] == []
    wanted = expected_changes(workload, True)
    assert lake.changes() == wanted, difference(lake.changes(), wanted)


@pytest.mark.parametrize("workload", of_full_set(w for w in EVERY if "checksum" in w.name), ids=lambda w: w.name)
def test_a_row_that_has_not_the_checksum_it_came_with_is_quarantined(workload: Workload, tmp_path: Path):
    keys = cut_everywhere(workload, tmp_path / "keys")
    snapshots = Snapshots.of(workload)
    changed = next(s for s in snapshots.rows.values() if s and s[0].shape.name == "all_types" and s[0].row["c_int"])
    changed[0] = replace(changed[0], row={**changed[0].row, "c_int": changed[0].row["c_int"] + 1})
    with TidbServer(snapshots).running() as server:
        lake = FeedLake(keys, tmp_path / "lake", upstream=server.config)
        lake.publish()

    reasons = [q.reason for q in lake.lake.control.quarantined()]
    assert reasons
    assert all("a row with the checksum it came with" in reason for reason in reasons)


# -- by hand ----------------------------------------------------------------------------------------------------------

TS = 459802242946170884
CREATE = "CREATE TABLE `t` (`id` INT NOT NULL,`u` INT,`v` LONGTEXT,PRIMARY KEY(`id`),UNIQUE KEY `u`(`u`))"
SHAPE = parse_create(CREATE, "s", "t")


def framed(*bodies: object) -> bytes:
    texts = [body if isinstance(body, bytes) else json.dumps(body).encode() for body in bodies]
    return b"".join(struct.pack(">Q", len(text)) + text for text in texts)


def stream(folder: Path, *rows: tuple[dict[str, Any], dict[str, Any]], options: str = "") -> Workload:
    """An Open Protocol stream of one table with these rows, complete up to the TSO behind them."""
    messages_sent = [
        ({"ts": 100, "scm": "s", "t": 2}, {"q": "CREATE DATABASE `s`", "t": 1}),
        ({"ts": 101, "scm": "s", "tbl": "t", "t": 2}, {"q": CREATE, "t": 3}),
        *(({"scm": "s", "tbl": "t", "t": 1, **head}, body) for head, body in rows),
        ({"ts": TS + 9, "t": 3}, b""),
    ]
    folder.mkdir(parents=True)
    with (folder / "messages.jsonl").open("w") as capture:
        for offset, (head, body) in enumerate(messages_sent):
            key, data = struct.pack(">Q", 1) + framed(head), framed(body)
            line = {"topic": "x", "partition": 0, "offset": offset, "ts_ms": 0}
            line |= {"key": b64encode(key).decode(), "value": b64encode(data).decode()}
            capture.write(json.dumps(line) + "\n")
    large = {"large-message-handle-option": "handle-key-only"}
    variant = {
        "sink_uri": f"kafka://h/x?protocol=open-protocol{options}",
        "config": {"sink": {"kafka-config": {"large-message-handle": large}}},
        "log": ".",
    }
    (folder / "variant.json").write_text(json.dumps(variant))
    (folder / "events.jsonl").write_text("")
    return Workload(folder)


def cut(image: str, number: int, ts: int = TS, **old: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """A change of which only the key was sent: `image` u with old values where given, or d."""
    body = {image: {"id": {"t": 3, "h": True, "f": 11, "v": number}}}
    body |= {"p": {"id": {"t": 3, "h": True, "f": 11, "v": old["p"]}}} if old else {}
    return {"ts": ts, "ohk": True}, body


def row(number: int, u: int, v: str) -> dict[str, Any]:
    return {"id": number, "u": u, "v": v}


@pytest.fixture(params=[1, message_decode.COMPLETED_BYTES], ids=["one at a time", "together"])
def held_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_decode, "COMPLETED_BYTES", request.param)


def changes_published(
    folder: Path, workload: Workload, rows: dict[int, list[dict[str, Any]]], **settings: Any
) -> list[tuple]:
    """The changes in the changelog, with an upstream that has these rows by TSO: op, id, v, and v before."""
    snapshots = Snapshots()
    for ts, listed in rows.items():
        for one in listed:
            snapshots.add(SHAPE, ts, one)
    with TidbServer(snapshots).running() as server:
        lake = FeedLake(workload, folder / "lake", upstream=server.config, **settings)
        lake.publish()
    assert waiting(lake) == {}
    changes = sorted(lake.changes().elements(), key=lambda c: (c.commit_ts, c.op, str(c.new)))
    return [(c.op, dict(c.new)["id"], dict(c.new)["v"], dict(c.old)["v"] if c.old else None) for c in changes]


def test_an_update_gets_both_its_images(tmp_path: Path):
    workload = stream(tmp_path / "x", cut("u", 1, p=1))
    rows = {TS: [row(1, 5, "new")], TS - 1: [row(1, 5, "old")]}

    assert changes_published(tmp_path, workload, rows) == [("U", 1, "new", "old")]


def test_an_update_that_moved_a_unique_key_is_a_delete_and_an_insert(tmp_path: Path):
    workload = stream(tmp_path / "x", cut("u", 1, p=1))
    rows = {TS: [row(1, 6, "new")], TS - 1: [row(1, 5, "old")]}

    assert changes_published(tmp_path, workload, rows) == [("D", 1, "old", None), ("I", 1, "new", None)]


def test_an_update_of_the_key_finds_its_old_row_by_its_old_key(tmp_path: Path):
    workload = stream(tmp_path / "x", cut("u", 2, p=1))
    rows = {TS: [row(2, 5, "new")], TS - 1: [row(1, 5, "old")]}

    assert changes_published(tmp_path, workload, rows) == [("D", 1, "old", None), ("I", 2, "new", None)]


def test_where_only_changed_columns_are_sent_a_cut_row_is_an_update_if_there_was_one_before(tmp_path: Path):
    workload = stream(
        tmp_path / "x", cut("u", 1), cut("u", 2), options="&only-output-updated-columns=true"
    )  # fmt: skip
    rows = {TS: [row(1, 5, "new"), row(2, 6, "made")], TS - 1: [row(1, 5, "old")]}

    assert changes_published(tmp_path, workload, rows) == [("I", 2, "made", None), ("U", 1, "new", "old")]


def test_a_deleted_row_is_its_key(tmp_path: Path):
    workload = stream(tmp_path / "x", cut("d", 1))

    assert changes_published(tmp_path, workload, {}) == [("D", 1, None, None)]


@pytest.mark.usefixtures("held_bytes")
def test_what_was_sent_twice_is_there_once(tmp_path: Path):
    workload = stream(tmp_path / "x", cut("u", 1), cut("u", 1), cut("u", 2, TS + 1), cut("u", 1))
    rows = {TS: [row(1, 5, "a")], TS + 1: [row(2, 6, "b")]}

    assert changes_published(tmp_path, workload, rows) == [("I", 1, "a", None), ("I", 2, "b", None)]


@pytest.mark.usefixtures("held_bytes")
def test_rows_that_were_cut_stand_among_those_that_were_not(tmp_path: Path):
    plain = {"id": (3, 1), "u": (3, 5), "v": (251, b64encode(b"first").decode())}
    sent = {name: {"t": t, "h": name == "id", "f": 11 if name == "id" else 0, "v": v} for name, (t, v) in plain.items()}
    workload = stream(tmp_path / "x", ({"ts": TS - 5}, {"u": sent}), cut("u", 1, p=1), cut("d", 1, TS + 1))
    rows = {TS: [row(1, 5, "large")], TS - 1: [row(1, 5, "first")]}

    assert changes_published(tmp_path, workload, rows) == [
        ("I", 1, "first", None),
        ("U", 1, "large", "first"),
        ("D", 1, None, None),
    ]
