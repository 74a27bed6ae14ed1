"""Small captures for tests: a Canal-JSON stream that is written message by message, and the lake that is made of it."""

from __future__ import annotations

import json
from base64 import b64encode
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.small_feeds import CREATE, Feed, Name

SINK = "kafka://h/feed?protocol=canal-json&enable-tidb-extension=true"


def at(n: int) -> int:
    """A commit_ts for each n, a millisecond after the one before."""
    return (1_700_000_000_000 + n) << 18


class Stream:
    """One topic of one partition; `sink` says whether messages have a commit_ts. `offset` is that of the first one."""

    def __init__(self, folder: Path, sink: str = SINK, offset: int = 0) -> None:
        self.folder = folder
        self._sink = sink
        self.capture = folder / "messages.jsonl"
        folder.mkdir(parents=True, exist_ok=True)
        self._offset = offset

    def feed(self, **settings: Any) -> Feed:
        """The changefeed over what was and will be written; each call may have other settings."""
        workload: Any = SimpleNamespace(variant={"sink_uri": self._sink, "config": {}}, events=[], time_zone="UTC")
        workload.root = self.folder
        return Feed(FeedLake(workload, self.folder / "lake", self.capture, **settings), self.folder, Counter())

    def create(self, name: Name, n: int) -> None:
        self.ddl(name, n, CREATE.format(name[1]))

    def rename(self, old: Name, new: Name, n: int) -> None:
        self.ddl(new, n, f"RENAME TABLE `{old[0]}`.`{old[1]}` TO `{new[0]}`.`{new[1]}`")

    def ddl(self, name: Name, n: int, query: str) -> None:
        self._send(name, "QUERY", {"commitTs": at(n)}, isDdl=True, sql=query)

    def insert(self, name: Name, n: int, row_id: int) -> None:
        types = {"sqlType": {"id": 4, "name": 12}, "mysqlType": {"id": "int", "name": "varchar"}, "pkNames": ["id"]}
        self._send(name, "INSERT", {"commitTs": at(n)}, data=[{"id": str(row_id), "name": "x"}], **types)

    def watermark(self, n: int) -> None:
        """Only where there are any: without the extension the newest commit is how far the stream is."""
        if self._sink == SINK:
            self._send(("", ""), "TIDB_WATERMARK", {"watermarkTs": at(n)})

    def _send(self, name: Name, kind: str, extension: dict[str, int], **members: Any) -> None:
        ms = next(iter(extension.values())) >> 18
        message: dict[str, Any] = {"id": 0, "database": name[0], "table": name[1], "pkNames": None, "isDdl": False}
        message |= {"type": kind, "es": ms, "ts": 0, "sql": "", "sqlType": None, "mysqlType": None}
        message |= {"data": None, "old": None, **members}
        message |= {"_tidb": extension} if self._sink == SINK else {}
        value = b64encode(json.dumps(message, separators=(",", ":")).encode()).decode()
        line = {"topic": "feed", "partition": 0, "offset": self._offset, "key": None, "value": value, "ts_ms": 0}
        self._offset += 1
        with self.capture.open("a") as capture:
            capture.write(json.dumps(line) + "\n")


def ids(feed: Feed) -> dict[Name, list[int]]:
    """The ids of all rows in the changelogs, by the name that their table bore."""
    found: dict[Name, list[int]] = {}
    for change in feed.found().elements():
        found.setdefault((change.schema, change.table), []).append(dict(change.new or ())["id"])
    return {name: sorted(rows) for name, rows in found.items()}
