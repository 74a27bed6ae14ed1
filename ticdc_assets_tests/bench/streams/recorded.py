"""The recorded streams that everything is measured on: 100,000 row events of one table of 20 columns, in seven forms.

A folder holds `<form>.tar.zst` each, and `log.tar.zst` with what happened (`events.jsonl`) and the rows that are true
at the end (`truth.jsonl`). A `log/` and `<form>/` that are unpacked already serve as well.
"""

from __future__ import annotations

import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

SCHEMA: Final = "bench"
TABLE: Final = "bench"
KEY: Final = "id"


@dataclass(frozen=True)
class Form:
    """One form of the stream: its name, and what the changefeed's sink was given."""

    name: str
    sink_uri: str
    sink: dict[str, Any] = field(default_factory=dict)

    @property
    def is_storage(self) -> bool:
        return self.name.startswith("storage-")


_KAFKA: Final = "kafka://127.0.0.1:9092/bench"

FORMS: Final = {
    form.name: form
    for form in (
        Form("storage-canal-json", "file:///x?protocol=canal-json&enable-tidb-extension=true"),
        Form("storage-csv", "file:///x?protocol=csv", {"csv": {"include-commit-ts": True}}),
        Form("canal-json-tidb", f"{_KAFKA}?protocol=canal-json&enable-tidb-extension=true"),
        Form("open", f"{_KAFKA}?protocol=open-protocol"),
        Form("simple-json", f"{_KAFKA}?protocol=simple"),
        Form("simple-avro", f"{_KAFKA}?protocol=simple", {"simple": {"encoding-format": "avro"}}),
        Form("avro", f"{_KAFKA}?protocol=avro&enable-tidb-extension=true"),
    )
}


def unpacked(folder: Path, name: str, scratch: Path) -> Path:
    """The folder in which the first file of the form `name` lies: a bucket's root, a capture, the log."""
    marks = ("events.jsonl",) if name == "log" else ("metadata", "*.bin")
    root = folder / name
    if not root.is_dir():
        root = scratch / "recorded" / name
        if not root.is_dir():
            _unpack(folder / f"{name}.tar.zst", root)
    return next(path.parent for mark in marks for path in sorted(root.rglob(mark)))


def _unpack(archive: Path, folder: Path) -> None:
    with pa.input_stream(archive, compression="zstd") as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
        tar.extractall(folder, filter="data")
