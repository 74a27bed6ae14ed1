"""What all measurements share: the recorded streams, the number of events, and the place of the results."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from ticdc_assets_tests.bench.streams import buckets, captures, copies
from ticdc_assets_tests.bench.streams.buckets import Bucket
from ticdc_assets_tests.bench.streams.changes import Log
from ticdc_assets_tests.bench.streams.recorded import FORMS, unpacked
from ticdc_assets_tests.bench.targets import Target


@dataclass
class BenchContext:
    """The recorded streams in `folder`, multiplied into `scratch` when first asked for."""

    folder: Path
    scratch: Path
    events: int
    cores: int = 2
    verdicts: list[str] = field(default_factory=list)
    missed: int = 0

    @cached_property
    def log(self) -> Log:
        return Log(unpacked(self.folder, "log", self.scratch))

    @cached_property
    def true_rows(self) -> pa.Table:
        return copies.true_rows(self.log.folder)

    @cached_property
    def rows_as_sent(self) -> pa.Table:
        return copies.rows_as_sent(self.log.folder)

    def recorded(self, form: str) -> Path:
        """The recorded stream itself."""
        return unpacked(self.folder, form, self.scratch)

    def bucket(self, form: str) -> Bucket:
        return Bucket(self.recorded(form))

    def stream(self, form: str, events: int | None = None) -> Path:
        """The stream with so many events."""
        distances = copies.shifts(events or self.events)
        made = self.scratch / "streams" / f"{form}-{len(distances)}"
        if len(distances) == 1:
            return self.recorded(form)
        if not made.is_dir():
            if FORMS[form].is_storage:
                buckets.multiply(self.bucket(form), made, distances)
            else:
                captures.multiply(form, self.recorded(form), made, distances)
        return made

    def judge(self, target: Target, value: float) -> None:
        """Print and keep a verdict."""
        line = target.line(value)
        self.missed += not target.met(value)
        self.verdicts.append(line)
        self.on_progress(line)

    def on_progress(self, text: str) -> None:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()


def events_of(events: int) -> int:
    """The number of events of a stream for a requested number: whole copies of the recorded events."""
    return len(copies.shifts(events)) * copies.EVENTS_RECORDED
