"""Settings of a stream of messages that change on a lake with data and back: no row is lost or read otherwise."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from ticdc_assets.config import load
from ticdc_assets.errors import ConfigError
from ticdc_assets.notes import NoteCode
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.run import run_of
from ticdc_assets.spark import LocalWorkers
from ticdc_assets_tests.deliveries.avro_wire import Avro
from ticdc_assets_tests.deliveries.database import Column, RowChange, Shape
from ticdc_assets_tests.deliveries.wires import CanalJson
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.small_streams import TOPIC, SmallStream, at, ids, shape, states

A, B, HELD = shape("a"), shape("b"), shape("held")
DATED = {"history": ["s.*"], "views": "{schema}__v.{table}", "held_views": "refuse"}
CLAIMED = {
    "large-message-handle-option": "claim-check",
    "claim-check-storage-uri": "file:///claims",
    "claim-check-raw-value": True,
}
Run = Callable[[FeedLake], object]


class Changing:
    """The tables `a` and `b`, and `held`, whose key in the config it has not, with rows 1 and 2 of each."""

    def __init__(self, folder: Path, run: Run, wire: Any = None, config: dict[str, Any] | None = None) -> None:
        self.folder, self._run = folder, run
        self.stream = SmallStream(folder / "feed", wire or CanalJson(), config or {})
        self.settings: dict[str, Any] = {"keys": {"s.held": ["absent"]}, **(DATED if wire is None else {})}
        self.others: dict[str, dict[str, Any]] = {}
        self.tick = 10
        for table in (A, B, HELD):
            self.stream.create(1, table)
            for number in (1, 2):
                self.stream.put(2, table, number)
        self.stream.watermark(9)

    def more(self, number: int, a: Shape = A) -> None:
        """A row of each table, and a watermark above them."""
        for table in (a, B, HELD):
            self.stream.put(self.tick, table, number)
        self.watermark()

    def watermark(self) -> None:
        self.stream.watermark(self.tick + 5)
        self.tick += 10

    def lake(self, **changed: Any) -> FeedLake:
        settings = {**self.settings, **changed}
        teller = settings.pop("ddl_from", None)
        made = self.stream.lake(**settings)
        path = self.stream.folder / "lake" / "changefeeds.yaml"
        written: dict[str, Any] = yaml.safe_load(path.read_text())
        written["changefeeds"] |= self.others
        written["changefeeds"]["feed"] |= {"ddl_from": teller} if teller else {}
        path.write_text(yaml.safe_dump(written))
        made.config = load(path, {})
        made.lake = Lake(made.config, made.config.changefeed("feed"))
        return made

    def run(self, **changed: Any) -> FeedLake:
        made = self.lake(**changed)
        self._run(made)
        return made

    def assert_live(self, lake: FeedLake, a: list[int], b: list[int] | None = None) -> None:
        """Changelogs, mirrors and histories have the rows with these ids, and the values that were sent."""
        wanted = {"a": a, "b": a if b is None else b}
        notes = {record.table: [note.code for note in record.notes] for record in lake.records().values()}
        assert notes == {"a": [], "b": [], "held": [NoteCode.KEYS]}
        assert [lake.records()["s", name].state for name in wanted] == ["live", "live"]
        assert ids(lake) == wanted
        images = [dict(change.new or ()) for change in lake.changes().elements()]
        assert all(image["name"] == f"name {image['id']}" for image in images)
        if self._run is FeedLake.run:
            self._assert_shown(lake, wanted)

    def _assert_shown(self, lake: FeedLake, wanted: dict[str, list[int]]) -> None:
        catalog = lake.lake.catalog
        for name, numbers in wanted.items():
            record = lake.records()["s", name]
            assert record.mirror is not None
            for place in (record.mirror, record.history_table):
                rows = catalog.load_table(tuple(place)).scan().to_arrow().to_pylist() if place else None
                assert rows is None or sorted(row["id"] for row in rows) == numbers
            assert (record.history_table is not None) is ("history" in self.settings)
        views = {("s__v", "a"), ("s__v", "b")} if "views" in self.settings else set()
        assert {tuple(view.view) for view in lake.lake.control.views()} == views


# -- a change and the change back, by key ------------------------------------------------------------------------------


def skip_offsets(folder: Path, run: Run) -> None:
    """A message is given up, and comes back when there is no rule any more."""
    made = Changing(folder, run)
    made.run()
    made.more(3)
    capture = made.stream.capture / "messages.jsonl"
    whole = capture.read_text().splitlines(keepends=True)
    missing = len(whole) - 4  # row 3 of `a`
    capture.write_text("".join(whole[:missing] + whole[missing + 1 :]))
    assert states(made.run()) == {"a": "stopped", "b": "stopped", "held": "stopped"}

    rule = {"skip_offsets": [f"{TOPIC}[0]@{missing}"]}
    made.assert_live(made.run(**rule), [1, 2], [1, 2, 3])
    made.more(4)
    back = made.run()
    assert states(back) == {"a": "stopped", "b": "stopped", "held": "stopped"}, "`held` still reads from before them"
    made.assert_live(made.run(**rule), [1, 2, 4], [1, 2, 3, 4])

    made.settings["keys"] = {}
    assert states(made.run(**rule)) == {"a": "live", "b": "live", "held": "live"}
    made.more(5)
    with capture.open("a") as file:
        file.write(whole[missing])
    back = made.run()
    assert ids(back) == {"a": [1, 2, 3, 4, 5], "b": [1, 2, 3, 4, 5], "held": [1, 2, 3, 4, 5]}
    assert states(back) == {"a": "live", "b": "live", "held": "live"}


def claim_check(folder: Path, run: Run) -> None:
    made = Changing(folder, run, config={"sink": {"kafka-config": {"large-message-handle": CLAIMED}}})
    former, other = folder / "former", folder / "other"
    made.settings["claim_check"] = str(former)
    put_claimed(made, former, 3)
    made.assert_live(made.run(), [1, 2, 3])
    shutil.rmtree(former)
    put_claimed(made, other, 4)

    made.assert_live(made.run(claim_check=str(other)), [1, 2, 3, 4])

    shutil.rmtree(other)
    put_claimed(made, former, 5)
    made.assert_live(made.run(), [1, 2, 3, 4, 5])


def put_claimed(made: Changing, claims: Path, number: int) -> None:
    """A row of `a` and one of `b`, whose messages are files of this folder."""
    claims.mkdir()
    for table in (A, B):
        row = {"id": number, "name": f"name {number}"}
        sent = CanalJson().row(RowChange(at(made.tick), table, "I", row))
        name = f"{table.name}-{number}.json"
        (claims / name).write_text(json.dumps(sent))
        keys = {**sent, "data": [{"id": str(number)}]}
        keys["_tidb"] = {**sent["_tidb"], "onlyHandleKey": True, "claimCheckLocation": f"file:///claims/{name}"}
        made.stream.send(TOPIC, 0, (None, json.dumps(keys, separators=(",", ":")).encode()))
    made.watermark()


def avro(folder: Path, run: Run, told: bool) -> tuple[Changing, Avro]:
    (folder / "former").mkdir()
    wire = Avro(folder / "former", told)
    made = Changing(folder, run, wire)
    made.settings["schema_registry"] = {"file": str(wire.registry)}
    return made, wire


def schema_registry(folder: Path, run: Run) -> None:
    """The other registry has the schemas under the same ids, and a later one."""
    made, former = avro(folder, run, told=True)
    made.assert_live(made.run(), [1, 2])
    (folder / "other").mkdir()
    made.stream.wire = other = Avro(folder / "other", told=True)
    other.ids |= former.ids
    wider = shape("a", Column("more", "INT"), version=made.tick - 1)
    made.stream.ddl(made.tick - 1, "ALTER TABLE `a` ADD COLUMN `more` INT", A, wider)
    made.more(3, wider)

    made.assert_live(made.run(schema_registry={"file": str(other.registry)}), [1, 2, 3])

    former.ids |= other.ids
    made.stream.wire = former
    made.more(4, wider)
    made.assert_live(made.run(), [1, 2, 3, 4])


def ddl_from(folder: Path, run: Run) -> None:
    """The other changefeed is behind at first; then both tell the same statements."""
    made, _ = avro(folder, run, told=False)
    told = {name: SmallStream(folder / name) for name in ("ddl", "other")}
    for name, stream in told.items():
        target = {"mirror": name + "_{schema}.{table}", "changelog": name + "_{schema}__changes.{table}"}
        source = {"capture": str(stream.capture)}
        made.others[name] = {"sink_uri": CanalJson.sink_uri, "source": source, "target": target}
        for table in (A, B, HELD):
            stream.create(1, table)
        stream.watermark(9)
        run_told(made, name)
    made.settings["ddl_from"] = "ddl"
    made.assert_live(made.run(), [1, 2])
    made.more(3)

    assert states(made.run(ddl_from="other"))["a"] == "waiting"
    told["other"].watermark(20)
    run_told(made, "other")
    made.assert_live(made.run(ddl_from="other"), [1, 2, 3])
    made.more(4)
    with pytest.raises(ConfigError, match="with which earlier runs have read, found none"):
        made.run(ddl_from=None)

    told["ddl"].watermark(50)
    run_told(made, "ddl")
    made.assert_live(made.run(), [1, 2, 3, 4])


def run_told(made: Changing, name: str) -> None:
    """Run a changefeed of statements."""
    config = made.lake().config
    run = run_of(Lake(config, config.changefeed(name)))
    run.publish_changelogs(run.scan(), LocalWorkers())


KEYS: dict[str, Callable[[Path, Run], None]] = {
    each.__name__: each for each in (skip_offsets, claim_check, schema_registry, ddl_from)
}


@pytest.mark.parametrize("key", KEYS)
def test_a_key_of_messages_changes_in_mid_life_as_declared_and_back_without_harm(tmp_path: Path, key: str):
    KEYS[key](tmp_path, FeedLake.publish)


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize("key", sorted(KEYS.keys() - {"claim_check"}))  # that one is read in the changelogs only
def test_mirrors_histories_and_views_follow(tmp_path: Path, key: str):
    KEYS[key](tmp_path, FeedLake.run)


def test_ddl_from_is_refused_after_the_first_run(tmp_path: Path):
    """What is read by the order of messages is not read again, so the tables would begin again without rows."""
    made, _ = avro(tmp_path, FeedLake.publish, told=False)
    made.settings["keys"] = {}
    made.run()
    told = SmallStream(tmp_path / "ddl")
    target = {"mirror": "ddl_{schema}.{table}", "changelog": "ddl_{schema}__changes.{table}"}
    made.others["ddl"] = {"sink_uri": CanalJson.sink_uri, "source": {"capture": str(told.capture)}, "target": target}
    for table in (A, B, HELD):
        told.create(1, table)
    made.more(3)
    told.watermark(made.tick)
    run_told(made, "ddl")

    with pytest.raises(ConfigError, match="earlier runs have read 6 messages without statements, found ddl"):
        made.run(ddl_from="ddl")

    catalog = made.run().lake.catalog
    rows = [catalog.load_table(("s__changes", name)).scan().to_arrow()["id"].to_pylist() for name in ("a", "b", "held")]
    assert [sorted(ids) for ids in rows] == [[1, 2, 3]] * 3
