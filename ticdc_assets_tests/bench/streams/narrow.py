"""The recorded streams with the rows of a few keys only: what the tests of this folder run on.

`python -m ticdc_assets_tests.bench.streams.narrow FOLDER OUT`; messages and files are otherwise as they were.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ticdc_assets.sources.capture import Message, messages
from ticdc_assets_tests.bench.streams import captures
from ticdc_assets_tests.bench.streams.buckets import Bucket, Tree, rows
from ticdc_assets_tests.bench.streams.changes import Log
from ticdc_assets_tests.bench.streams.recorded import FORMS, KEY, TABLE, unpacked

KEYS_OF_EACH_LIFE: Final = 4


def chosen_keys(log: Log) -> set[int]:
    """A few keys of each life: only inserted; inserted and updated; inserted, updated and deleted."""
    lives: dict[int, str] = {}
    for change in log.changes:
        lives[change.key] = lives.get(change.key, "") + change.op[0]
    kinds: dict[str, list[int]] = {"i": [], "iu": [], "iuu": [], "id": [], "iud": []}
    for key, life in lives.items():
        if len(kinds.get(life, [0] * KEYS_OF_EACH_LIFE)) < KEYS_OF_EACH_LIFE:
            kinds[life].append(key)
    return {key for keys in kinds.values() for key in keys}


def narrow_bucket(like: Bucket, out: Path, keys: set[int]) -> None:
    """The bucket with the lines of these keys, in two files."""
    lines = [line for path in like.data_files for line in _lines(path, like.extension, keys)]
    half = len(lines) // 2
    tree = Tree(out, like)
    tree.add_table(TABLE, [b"".join(lines[:half]), b"".join(lines[half:])])
    tree.checkpoint(like.checkpoint)


def _lines(path: Path, extension: str, keys: set[int]) -> Iterator[bytes]:
    for line in path.read_bytes().splitlines(keepends=True):
        if rows(line, extension).keys[-1] in keys:
            yield line


def narrow_capture(form: str, capture: Path, out: Path, keys: set[int]) -> None:
    """The capture with the messages of these keys, and all that are no rows."""
    out.mkdir(parents=True)
    for path in sorted(capture.iterdir()):
        if path.suffix == ".bin":
            kept = (captures.narrowed(form, message, keys) for message in messages(path))
            (out / path.name).write_bytes(b"".join(_record(message) for message in kept if message is not None))
        else:
            shutil.copyfile(path, out / path.name)


def _record(message: Message) -> bytes:
    return captures.record(message.ts_ms, message.key, message.value)


def narrow_log(folder: Path, out: Path, keys: set[int]) -> None:
    """The events of these keys, and their true rows."""
    out.mkdir(parents=True)
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    kept = [e for e in events if e["kind"] != "dml" or (e.get("row") or e["pre"])[KEY] in keys]
    head, *lines = (folder / "truth.jsonl").read_text().splitlines()
    true = [row for row in map(json.loads, lines) if row[KEY] in keys]
    _write(out / "events.jsonl", kept)
    _write(out / "truth.jsonl", [{**json.loads(head), "rows": len(true)}, *true])


def _write(path: Path, objects: list[dict[str, object]]) -> None:
    path.write_text("".join(json.dumps(o, ensure_ascii=False, separators=(",", ":")) + "\n" for o in objects))


def main() -> None:
    """Make the narrow streams again."""
    folder, out = Path(sys.argv[1]), Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as scratch:
        log = Log(unpacked(folder, "log", Path(scratch)))
        keys = chosen_keys(log)
        narrow_log(log.folder, out / "log", keys)
        for form in FORMS.values():
            recorded = unpacked(folder, form.name, Path(scratch))
            if form.is_storage:
                narrow_bucket(Bucket(recorded), out / form.name, keys)
            else:
                narrow_capture(form.name, recorded, out / form.name, keys)


if __name__ == "__main__":
    main()
