"""The state machine of message deliveries: things happen in the database, TiCDC sends them in all the ways it may,
the capture lags, and runs come in between. After every run the lake must be right; at the end it must be whole.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from ticdc_assets.config import Config, load
from ticdc_assets.pipeline.run import run_of
from ticdc_assets.spark import LocalWorkers
from ticdc_assets_tests.deliveries.database import (
    ALTERATIONS,
    NAMES,
    START_TS,
    Database,
    DatabaseEvent,
    Name,
    RowChange,
    Statement,
)
from ticdc_assets_tests.deliveries.kafka import Capture, TiCdc
from ticdc_assets_tests.deliveries.memory_lake import MemoryLake
from ticdc_assets_tests.deliveries.observed import Observer
from ticdc_assets_tests.deliveries.sending import source_table_of
from ticdc_assets_tests.deliveries.wires import Wire

SMALL = st.integers(0, 5)
ACTIONS = st.lists(
    st.tuples(SMALL, st.sampled_from(["put", "put", "delete", "move"]), st.integers(0, 3), SMALL),
    min_size=1,
    max_size=5,
)
STEPS = st.lists(st.tuples(st.integers(0, 11), SMALL), min_size=4, max_size=24)
TABLES = st.lists(st.tuples(st.sampled_from(NAMES), st.booleans(), st.booleans()), min_size=1, max_size=3)
TAKES = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 20)), min_size=1, max_size=5)


EVENTS = st.one_of(
    st.tuples(st.just("transact"), ACTIONS, SMALL),
    st.tuples(st.just("transact"), ACTIONS, SMALL),
    st.tuples(st.just("alter"), SMALL, st.sampled_from([*ALTERATIONS, "rename table"]), st.integers(0, 7), SMALL),
    st.tuples(st.just("alter"), SMALL, st.sampled_from([*ALTERATIONS, "rename table"]), st.integers(0, 7), SMALL),
    st.tuples(st.just("create"), st.sampled_from(NAMES), st.booleans(), st.booleans(), SMALL),
)


class Deliveries(RuleBasedStateMachine):
    """What is common to all sources: the database, the lake, and what must hold after every run."""

    lake: MemoryLake  # made by the first rule of each source

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="deliveries-", dir=_memory()))
        self.database = Database()
        self.observer = Observer()
        self.since = START_TS
        self.high = 0
        self.sound = True
        self.all_keyed = True
        self.some: set[Name] = set()

    def teardown(self) -> None:
        try:
            if self.sound and hasattr(self, "lake"):
                self.finish()
        finally:
            shutil.rmtree(self.folder)

    # -- the database -------------------------------------------------------------------------------------------------

    def happen(self, events: Any) -> None:
        """Transactions and statements."""
        for kind, *event in events:
            getattr(self, kind)(*event)

    def transact(self, actions: Any, step: int) -> None:
        self.database.transact(actions, step)

    def create(self, name: Name, key: bool, unique: bool, step: int) -> None:
        self.database.create(name, key or self.all_keyed, unique, step)

    def alter(self, number: int, kind: str, what: int, step: int) -> None:
        self.database.alter(number, kind, what, step)

    # -- runs ---------------------------------------------------------------------------------------------------------

    def publish(self) -> None:
        """One run up to the changelogs."""
        run = run_of(self.lake.open())
        pending = run.scan()
        if not pending.is_empty:
            run.publish_changelogs(pending, LocalWorkers())

    @rule(names=st.sets(st.sampled_from(NAMES), min_size=1, max_size=2))
    def ask_for_some(self, names: set[Name]) -> None:
        """Now and before the end there is a run while `tables` asks for these alone."""
        self.some = names
        self.publish_some()

    def publish_some(self) -> None:
        """What such a run passes of other tables is theirs when they are asked for."""
        if self.some:
            self.lake.config = self.config(tables=[".".join(name) for name in sorted(self.some)])
            self.publish()
            self.lake.config = self.config()

    def config(self, **more: Any) -> Config:
        raise NotImplementedError

    def check(self, complete_to: int, waiting: Collection[Name] = ()) -> None:
        """The lake is complete up to `complete_to`, holds nothing above it, and its mirrors fold to the true rows.

        Tables of the names `waiting` may be behind: they hold a part of the truth, each change once.
        """
        self.sound = False  # unless nothing below fails: then there is no use in going on
        lake = self.lake.open()
        newest = lake.control.newest()
        tso, tables = (newest.tso, newest.tables) if newest else (0, ())
        assert tso >= self.high, "the watermark went back"
        self.high = tso
        assert tso == complete_to, f"complete to {tso}, not to {complete_to}"
        held = [t for t in tables if t.state in ("waiting", "stopped")]
        expected = self._ever_called(waiting)
        notes = [t.note for t in held if (t.schema, t.table) not in expected]
        assert not notes, notes
        assert not lake.control.quarantined()
        wanted, found = self.sent(self.database.changes(self.since, tso)), self.observer.changes(lake)
        late = self._ever_called({(t.schema, t.table) for t in held})
        assert not found - wanted, _difference(found, wanted)
        assert not [c for c in (wanted - found) if (c.schema, c.table) not in late], _difference(found, wanted)
        folded, true = self.observer.mirrors(lake), self.database.rows(self.since, tso)
        unheard = {name: Counter() for name, rows in true.items() if not rows}  # older than the stream, and quiet since
        unborn = self._born_after(tso)  # a BOOTSTRAP may tell of a table whose first row is above the watermark
        folded = {**unheard, **{name: rows for name, rows in folded.items() if rows or name not in unborn}}
        wrong = {name for name in folded.keys() | true.keys() if folded.get(name) != true.get(name)} - late
        assert not wrong, [_difference(folded.get(n, Counter()), true.get(n, Counter())) for n in wrong]
        self.sound = True

    def idle(self) -> None:
        """A run with nothing new writes nothing."""
        commits = self.lake.commits
        self.publish()
        assert self.lake.commits == commits, "a run with nothing new wrote something"

    def _born_after(self, tso: int) -> set[Name]:
        later = [event for event in self.database.log if isinstance(event, Statement) and event.commit_ts > tso]
        return {name for event in later if event.before is None for name in _names(event)}

    def _ever_called(self, names: Collection[Name]) -> set[Name]:
        """These names, and all others that their tables ever had."""
        called = [(source_table_of(event), name) for event in self.database.log for name in _names(event)]
        source_tables = {source_table for source_table, name in called if name in names}
        return {name for source_table, name in called if source_table in source_tables}

    def sent(self, changes: Counter[Any]) -> Counter[Any]:
        """The changes as the stream carries them."""
        return changes

    def finish(self) -> None:
        raise NotImplementedError


class MessageDeliveries(Deliveries):
    """Kafka, captured."""

    wire: ClassVar[Wire]

    @initialize(
        partitions=st.integers(1, 3),
        by_key=st.booleans(),
        tables=TABLES,
        all_keyed=st.sampled_from([True, True, False]),
        joins_late=st.booleans(),
        late_bootstraps=st.booleans(),
        actions=ACTIONS,
    )
    def begin(
        self,
        partitions: int,
        by_key: bool,
        tables: Any,
        all_keyed: bool,
        joins_late: bool,
        late_bootstraps: bool,
        actions: Any,
    ) -> None:
        self.all_keyed = all_keyed
        if joins_late:
            self._tables(tables, actions)
            self.since = self.database.now
        self.ticdc = TiCdc(self.database, self.wire, partitions, by_key, self.since)
        self.ticdc.late_bootstraps = self.wire.has_bootstraps and late_bootstraps
        self.capture = Capture(self.folder / "messages.jsonl", self.ticdc)
        for shape in () if self.wire.has_bootstraps else self.database.live:
            (self.folder / f"{shape.schema}.{shape.name}-schema.sql").write_text(shape.create + ";\n")
        self.lake = MemoryLake(self.config())
        if not joins_late:
            self._tables(tables, actions)

    def _tables(self, tables: Any, actions: Any) -> None:
        for name, key, unique in tables:
            self.create(name, key, unique, 1)
        self.database.transact(actions, 1)

    def config(self, **more: Any) -> Config:
        return write_config(
            self.folder,
            sink_uri=self.wire.sink_uri,
            source={"capture": str(self.capture.path)},
            schema_files=sorted(str(path) for path in self.folder.glob("*.sql")),
            **more,
        )

    @rule(events=st.lists(EVENTS, max_size=6), steps=STEPS, takes=st.none() | TAKES, runs=st.integers(0, 2))
    def deliver(self, events: Any, steps: Any, takes: Any, runs: int) -> None:
        """Apply events, let TiCDC send, capture a part or all of it, and start up to two runs."""
        self.happen(events)
        for choice, size in steps:
            self.ticdc.send(choice, size)
        for partition, count in takes or [(p, 1000) for p in range(self.ticdc.partitions)]:
            self.capture.take(partition, count)
        if runs:
            self.publish()
            self.check(self.capture.watermark, NAMES if self.ticdc.late_bootstraps else ())
        if runs > 1:
            self.idle()

    @precondition(lambda self: self.ticdc.late_bootstraps)
    @rule()
    def bootstrap(self) -> None:
        self.ticdc.tell_bootstraps()

    @rule(back=st.integers(0, 4), lost=st.integers(0, 3), tells_checkpoint=st.booleans())
    def restart(self, back: int, lost: int, tells_checkpoint: bool) -> None:
        if self.all_keyed:
            self.ticdc.restart(back, lost, self.capture.taken, tells_checkpoint)
        elif self.ticdc.can_go_back:
            # Without a key only a watermark that goes back says that what follows is a repeat.
            self.ticdc.restart(max(1, back), 0, self.capture.taken, tells_checkpoint=True)

    @precondition(lambda self: self.all_keyed)
    @rule(kind=st.sampled_from(["move_table", "stutter", "capture_again"]), which=SMALL, count=st.integers(1, 8))
    def repeat(self, kind: str, which: int, count: int) -> None:
        if kind == "move_table":
            self.ticdc.move_table(which)
        elif kind == "stutter":
            self.ticdc.stutter(which, count)
        else:
            self.capture.again(count)

    def finish(self) -> None:
        self.ticdc.send_all()
        self.capture.take_all()
        self.publish_some()
        self.publish()
        self.check(self.database.now)
        self.idle()


def _names(event: DatabaseEvent) -> list[Name]:
    if isinstance(event, RowChange):
        return [(event.shape.schema, event.shape.name)]
    return [(shape.schema, shape.name) for shape in (event.before, event.after) if shape is not None]


def write_config(folder: Path, **changefeed: Any) -> Config:
    catalog = {"name": "lake", "type": "sql", "uri": "sqlite://", "warehouse": f"{folder}/warehouse"}
    feeds = {"feed": {"time_zone": "UTC", "config": {}, **changefeed}}
    written = {"catalog": catalog, "spark": {"master": "local[2]"}, "changefeeds": feeds}
    return _loaded(folder / "changefeeds.yaml", json.dumps(written))


@lru_cache(8)
def _loaded(path: Path, text: str) -> Config:
    """The config, read once while it stays the same: YAML takes as long as a run."""
    path.write_text(text)
    return load(path, {})


def _memory() -> str | None:
    """A folder in memory where the machine has one."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def _difference(found: Counter[Any], wanted: Counter[Any]) -> str:
    return f"missing {list((wanted - found).elements())[:2]}; too many {list((found - wanted).elements())[:2]}"
