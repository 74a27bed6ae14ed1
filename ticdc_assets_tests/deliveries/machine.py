"""The state machine of message deliveries: things happen in the database, TiCDC sends them in all the ways it may,
the capture lags, and runs come in between. After every run the lake must be right; at the end it must be whole.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

import yaml
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from ticdc_assets.config import Config, load
from ticdc_assets.pipeline.runs import run_of
from ticdc_assets.spark import LocalWorkers
from ticdc_assets_tests.deliveries.database import ALTERATIONS, NAMES, START_TS, Database
from ticdc_assets_tests.deliveries.kafka import Capture, TiCdc
from ticdc_assets_tests.deliveries.memory_lake import MemoryLake
from ticdc_assets_tests.deliveries.observed import Observer
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


class Deliveries(RuleBasedStateMachine):
    """What is common to all sources: the database, the lake, and what must hold after every run."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="deliveries-", dir=_memory()))
        self.database = Database()
        self.observer = Observer()
        self.since = START_TS
        self.high = 0
        self.sound = True
        self.all_keyed = True

    def teardown(self) -> None:
        try:
            if self.sound and hasattr(self, "lake"):
                self.finish()
        finally:
            shutil.rmtree(self.folder)

    # -- the database -------------------------------------------------------------------------------------------------

    @rule(name=st.sampled_from(NAMES), key=st.booleans(), unique=st.booleans(), step=SMALL)
    def create(self, name: tuple[str, str], key: bool, unique: bool, step: int) -> None:
        self.database.create(name, key or self.all_keyed, unique, step)

    @rule(transactions=st.lists(st.tuples(ACTIONS, SMALL), min_size=1, max_size=3))
    def transact(self, transactions: Any) -> None:
        for actions, step in transactions:
            self.database.transact(actions, step)

    @rule(number=SMALL, kind=st.sampled_from(ALTERATIONS), what=st.integers(0, 7), step=SMALL)
    def alter(self, number: int, kind: str, what: int, step: int) -> None:
        self.database.alter(number, kind, what, step)

    # -- runs ---------------------------------------------------------------------------------------------------------

    def publish(self) -> None:
        """One run up to the changelogs."""
        run = run_of(self.lake.open())
        pending = run.look()
        if not pending.is_empty:
            run.publish_changelogs(pending, LocalWorkers())

    def check(self, complete_to: int) -> None:
        """The lake is complete up to `complete_to`, holds nothing above it, and its mirrors fold to the true rows."""
        self.sound = False  # unless nothing below fails: then there is no use in going on
        lake = self.lake.open()
        newest = lake.control.newest()
        tso, tables = (newest.tso, newest.tables) if newest else (0, ())
        assert tso >= self.high, "the watermark went back"
        self.high = tso
        assert tso == complete_to, f"complete to {tso}, not to {complete_to}"
        assert not [table.note for table in tables if table.state in ("waiting", "stopped")]
        assert not lake.control.quarantined()
        wanted, found = self.carried(self.database.changes(self.since, tso)), self.observer.changes(lake)
        assert found == wanted, _difference(found, wanted)
        folded, true = self.observer.mirrors(lake), self.database.rows(self.since, tso)
        unheard = {name: Counter() for name, rows in true.items() if not rows}  # older than the stream, and quiet since
        folded = {**unheard, **folded}
        assert folded.keys() == true.keys(), f"mirrors of {sorted(folded)}, not of {sorted(true)}"
        assert folded == true, [_difference(folded[name], true[name]) for name in true if folded[name] != true[name]]
        self.sound = True

    def carried(self, changes: Counter[Any]) -> Counter[Any]:
        """The changes as the stream tells them."""
        return changes

    def finish(self) -> None:
        raise NotImplementedError


class MessageDeliveries(Deliveries):
    """Kafka, captured."""

    wire: ClassVar[Wire]
    read = 0
    """How many lines of the capture the last run saw."""

    @initialize(
        partitions=st.integers(1, 3),
        by_key=st.booleans(),
        tables=TABLES,
        all_keyed=st.sampled_from([True, True, False]),
        joins_late=st.booleans(),
        actions=ACTIONS,
    )
    def begin(
        self, partitions: int, by_key: bool, tables: Any, all_keyed: bool, joins_late: bool, actions: Any
    ) -> None:
        self.all_keyed = all_keyed
        if joins_late:
            self._tables(tables, actions)
            self.since = self.database.now
        self.ticdc = TiCdc(self.database, self.wire, partitions, by_key, self.since)
        self.capture = Capture(self.folder / "messages.jsonl", self.ticdc)
        for shape in self.database.live:
            (self.folder / f"{shape.schema}.{shape.name}-schema.sql").write_text(shape.create + ";\n")
        self.lake = MemoryLake(self.config())
        if not joins_late:
            self._tables(tables, actions)

    def _tables(self, tables: Any, actions: Any) -> None:
        for name, key, unique in tables:
            self.create(name, key, unique, 1)
        self.database.transact(actions, 1)

    def config(self) -> Config:
        return write_config(
            self.folder,
            sink_uri=self.wire.sink_uri,
            source={"capture": str(self.capture.path)},
            schema_files=sorted(str(path) for path in self.folder.glob("*.sql")),
        )

    def send(self, steps: Any) -> None:
        for choice, size in steps:
            self.ticdc.send(choice, size)

    @rule(takes=TAKES)
    def take(self, takes: Any) -> None:
        for partition, count in takes:
            self.capture.take(partition, count)

    @rule(back=st.integers(0, 4), lost=st.integers(0, 3), tells_checkpoint=st.booleans())
    def restart(self, back: int, lost: int, tells_checkpoint: bool) -> None:
        if self.all_keyed:
            self.ticdc.restart(back, lost, self.capture.taken, tells_checkpoint)
        elif self.ticdc.can_go_back:
            # Without a key only a watermark that goes back says that what follows is a repeat.
            self.ticdc.restart(max(1, back), 0, self.capture.taken, tells_checkpoint=True)

    @precondition(lambda self: self.all_keyed)
    @rule(choice=SMALL)
    def move_table(self, choice: int) -> None:
        self.ticdc.move_table(choice)

    @precondition(lambda self: self.all_keyed)
    @rule(partition=st.integers(0, 2), count=st.integers(1, 3))
    def stutter(self, partition: int, count: int) -> None:
        self.ticdc.stutter(partition, count)

    @precondition(lambda self: self.all_keyed)
    @rule(count=st.integers(1, 8))
    def capture_again(self, count: int) -> None:
        self.capture.again(count)

    @rule(steps=STEPS)
    def flow(self, steps: Any) -> None:
        """TiCDC sends, and all of it is captured at once."""
        self.send(steps)
        self.capture.take_all()

    @precondition(lambda self: self.capture.lines > self.read)
    @rule()
    def run_now(self) -> None:
        self.read = self.capture.lines
        self.publish()
        self.check(self.capture.watermark)

    def finish(self) -> None:
        self.ticdc.send_all()
        self.capture.take_all()
        self.publish()
        self.check(self.database.now)
        commits = self.lake.commits
        self.publish()
        assert self.lake.commits == commits, "a run with nothing new wrote something"


def write_config(folder: Path, **changefeed: Any) -> Config:
    catalog = {"name": "lake", "type": "sql", "uri": "sqlite://", "warehouse": f"{folder}/warehouse"}
    path = folder / "changefeeds.yaml"
    feeds = {"feed": {"time_zone": "UTC", "config": {}, **changefeed}}
    path.write_text(yaml.safe_dump({"catalog": catalog, "spark": {"master": "local[2]"}, "changefeeds": feeds}))
    return load(path, {})


def _memory() -> str | None:
    """A folder in memory where the machine has one."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def _difference(found: Counter[Any], wanted: Counter[Any]) -> str:
    return f"missing {list((wanted - found).elements())[:2]}; too many {list((found - wanted).elements())[:2]}"
