"""The state machine of storage deliveries: TiCDC writes its tree file by file, and runs come in between."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from ticdc_assets.config import Config
from ticdc_assets_tests.deliveries.bucket import StorageSink, csv_line
from ticdc_assets_tests.deliveries.database import RowChange
from ticdc_assets_tests.deliveries.machine import ACTIONS, EVENTS, SMALL, STEPS, TABLES, Deliveries, write_config
from ticdc_assets_tests.deliveries.memory_lake import MemoryLake
from ticdc_assets_tests.deliveries.wires import CanalJson

COUNTS = st.integers(1, 30) | st.just(1000)


class StorageDeliveries(Deliveries):
    """A bucket, in one of the two formats."""

    form: ClassVar[str]

    @initialize(
        tables=TABLES,
        all_keyed=st.sampled_from([True, True, False]),
        joins_late=st.booleans(),
        by_day=st.booleans(),
        actions=ACTIONS,
    )
    def begin(self, tables: Any, all_keyed: bool, joins_late: bool, by_day: bool, actions: Any) -> None:
        self.all_keyed = all_keyed
        if joins_late:
            self._tables(tables, actions)
            self.since = self.database.now
        extension, encode = ("csv", csv_line) if self.form == "csv" else ("json", _json_line)
        folder = self.folder / "bucket"
        self.sink = StorageSink(self.database, folder, extension, encode, self.since, by_day)
        for shape in self.database.live:
            (self.folder / f"{shape.schema}.{shape.name}-schema.sql").write_text(shape.create + ";\n")
        self.date_separator = "day" if by_day else "none"
        self.lake = MemoryLake(self.config())
        if not joins_late:
            self._tables(tables, actions)

    def config(self, **more: Any) -> Config:
        csv = {"csv": {"include-commit-ts": True}} if self.form == "csv" else {}
        return write_config(
            self.folder,
            sink_uri=f"file:///bucket?protocol={self.form}&enable-tidb-extension=true",
            config={"sink": {"date-separator": self.date_separator, **csv}},
            source={"storage": str(self.sink.folder)},
            schema_files=sorted(str(path) for path in self.folder.glob("*.sql")),
            **more,
        )

    def _tables(self, tables: Any, actions: Any) -> None:
        for name, key, unique in tables:
            self.create(name, key, unique, 1)
        self.database.transact(actions, 1)

    @rule(events=st.lists(EVENTS, max_size=6), steps=STEPS, count=COUNTS, runs=st.integers(0, 2))
    def deliver(self, events: Any, steps: Any, count: int, runs: int) -> None:
        """Apply events, let TiCDC write a part or all of its files, and start up to two runs."""
        self.happen(events)
        for choice, size in steps:
            self.sink.send(choice, size)
        self.sink.write(count)
        if runs:
            self.publish()
            self.check(max(self.high, self.sink.checkpoint), self.sink.missing)
        if runs > 1:
            self.idle()

    @precondition(lambda self: self.all_keyed)  # without a key, what comes again may look like equal rows
    @rule(back=st.integers(0, 3))
    def restart(self, back: int) -> None:
        earlier = sorted({event.commit_ts for event in self.database.log if event.commit_ts < self.sink.checkpoint})
        candidates = [self.since, *(ts for ts in earlier if ts > self.since), self.sink.checkpoint]
        self.sink.restart(candidates[max(0, len(candidates) - 1 - back)])

    @rule(choice=SMALL, moves=st.booleans())
    def mishap(self, choice: int, moves: bool) -> None:
        """A table moves to another node, or the server's date changes."""
        if moves and self.all_keyed:
            self.sink.move_table(choice)
        else:
            self.sink.day += 1

    def sent(self, changes: Counter[Any]) -> Counter[Any]:
        if self.form != "csv":
            return changes
        return Counter(change._replace(old=None) for change in changes.elements())

    def finish(self) -> None:
        self.sink.send_all()
        self.publish_some()
        if never := [str(path) for path in self.sink.absent]:
            # TiCDC was stopped between an index and its file, and goes on in the folder of another date.
            self.lake.config = self.config(skip_files=never)
        self.publish()
        self.check(self.database.now)
        self.idle()


def _json_line(change: RowChange) -> bytes:
    return json.dumps(CanalJson().row(change), ensure_ascii=False, separators=(",", ":")).encode() + b"\r\n"
