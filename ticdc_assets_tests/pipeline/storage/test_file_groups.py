"""Small files that are decoded together have the same results as files that are decoded alone, also with faults."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets.pipeline.storage import decode as storage_decode
from ticdc_assets.pipeline.storage import reader as storage_reader
from ticdc_assets_tests.pipeline.faults.broken_tables import T, U
from ticdc_assets_tests.pipeline.small_feeds import Feed, JsonSink, Sink

FILES = 9
TEXTS = ("eins", "zwei,", "a\nb", "日本", "", None, "tail\\\\", "''", "x" * 300)

SINKS: dict[str, Callable[[Path], Sink]] = {
    "csv": Sink,
    "csv-by-arrival": lambda folder: Sink(folder, commit_ts=False),
    "csv-old-values": lambda folder: Sink(folder, old_values=True),
    "canal-json": JsonSink,
}


def cut(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data))]


def one_byte_changed(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data))
    return data[:at] + chance.choice([b'"', b",", b"\n", b"\r", b"\\", b"\0", b"\xff", b"7"]) + data[at + 1 :]


def a_record_twice(data: bytes, chance: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    return b"".join([*lines, chance.choice(lines)])


def without_its_first_line(data: bytes, chance: random.Random) -> bytes:
    return b"".join(data.splitlines(keepends=True)[1:])


def without_its_last_line_end(data: bytes, chance: random.Random) -> bytes:
    return data.rstrip(b"\r\n")


def with_a_foreign_line(data: bytes, chance: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    lines.insert(chance.randrange(len(lines) + 1), chance.choice([b"rubbish\r\n", b"\r\n", b"{}\r\n", b'"\r\n']))
    return b"".join(lines)


DAMAGES = (
    cut, one_byte_changed, a_record_twice, without_its_first_line, without_its_last_line_end, with_a_foreign_line,
)  # fmt: skip


def written(folder: Path, kind: str, chance: random.Random) -> Sink:
    """Two tables of small files; some are damaged, and some commits go on in the next file, or come again there."""
    sink = SINKS[kind](folder)
    for name in (T, U):
        sink.table(name)
        ts, lines = 110, []
        paths = []
        for number in range(1, FILES + 1):
            lines = lines[-1:] if lines and chance.random() < 0.2 else []  # sent again after a restart
            for _ in range(chance.randint(1, 4)):
                ts = max(110, ts + chance.choice([0, 0, 1, 5, 5, -20 if chance.random() < 0.1 else 2]))
                lines += changes(sink, name, ts, chance)
            paths.append(sink.file(name, number, lines))
        for path in chance.sample(paths, chance.choice([0, 0, 1, 2])):
            path.write_bytes(chance.choice(DAMAGES)(path.read_bytes(), chance))
        if chance.random() < 0.2:
            across_the_border(*chance.choice(list(pairwise(paths))), chance)
    return sink


def changes(sink: Sink, name: tuple[str, str], ts: int, chance: random.Random) -> list[bytes]:
    key = chance.randint(1, 9)
    if sink.old_values and chance.random() < 0.5:
        return sink.update(name, ts, (key, chance.choice(TEXTS)), (key, chance.choice(TEXTS)))
    return [sink.insert(name, ts, key, chance.choice(TEXTS))]


def across_the_border(first: Path, second: Path, chance: random.Random) -> None:
    """Both files keep their bytes in all, but another place divides them."""
    data = first.read_bytes() + second.read_bytes()
    at = chance.randrange(1, len(data))
    first.write_bytes(data[:at])
    second.write_bytes(data[at:])


def outcome(feed: Feed) -> dict[str, Any]:
    """The results of a run: the changelogs with every column, the states and notes of tables, and the quarantine."""
    feed.run()
    lake = feed.lake.lake
    rows = {}
    for name, record in feed.lake.records().items():
        if record.changelog is not None:
            table = lake.catalog.load_table(tuple(record.changelog)).scan().to_arrow()
            rows[name] = sorted(map(repr, table.to_pylist()))
    states = {name: (record.state, record.note, record.watermark) for name, record in feed.lake.records().items()}
    entries = [(e.schema, e.table, e.path, e.line, e.raw, e.reason) for e in feed.quarantined()]
    return {"rows": rows, "states": states, "quarantine": sorted(map(repr, entries))}


def together_and_alone(kind: str, seed: int, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    sink = written(folder / "bucket", kind, random.Random(seed))
    together = outcome(sink.feed(folder / "together"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage_reader, "SMALL_BYTES", -1)
        alone = outcome(sink.feed(folder / "alone"))
    return together, alone


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("kind", SINKS)
def test_files_read_together_and_alone_leave_the_same(kind: str, seed: int, tmp_path: Path):
    together, alone = together_and_alone(kind, seed, tmp_path)

    assert together == alone


@pytest.mark.parametrize("kind", SINKS)
def test_sound_small_files_are_decoded_in_one_group(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    sink = SINKS[kind](tmp_path / "bucket")
    sink.table(T)
    for number in range(1, 6):
        sink.file(T, number, [sink.insert(T, 110 + number, number, "eins")])
    feed = sink.feed(tmp_path / "lake")
    monkeypatch.setattr(storage_decode._TableDecoder, "_file", None)  # a file that is decoded alone fails

    feed.run()

    assert feed.found(T) == feed.expected(T)


def test_a_small_file_that_is_a_link_to_the_outside_is_not_read(tmp_path: Path):
    sink = Sink(tmp_path / "bucket")
    sink.table(T)
    for number in (1, 2):
        sink.file(T, number, [sink.insert(T, 110 + number, number, "eins")])
    path = sink.file(T, 3, [sink.line(T, "I", 120, 3, "drei")])
    secret = tmp_path / "secret.csv"
    path.rename(secret)
    path.symlink_to(secret)
    feed = sink.feed(tmp_path / "lake")

    feed.run()

    assert feed.state(T) != "live"
    assert not any(change.commit_ts == 120 for change in feed.found(T))
