"""What the note of a table whose mirror is held advises is done: the mirror has the rows of the source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ticdc_assets.changes import layout
from ticdc_assets_tests.deliveries.database import Column
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.rebuild.rebuilt import rebuild
from ticdc_assets_tests.pipeline.small_streams import ID, SmallStream, shape, states
from ticdc_assets_tests.pipeline.stream.offsets.rewritten_capture import notes

pytestmark = pytest.mark.spark

A, NEW, OLD = shape("a"), shape("new"), shape("old")
NUMBERED = replace(A, columns=(ID, Column("name", "INT")))
KEYLESS = replace(A, key=None)
WIDER = shape("a", Column("b", "INT"))


@dataclass
class Scene:
    """A stream with the table `a`, whose mirror gets a fault, and the changefeed that reads it."""

    stream: SmallStream
    settings: dict[str, Any] = field(default_factory=dict)

    def lake(self) -> FeedLake:
        return self.stream.lake(**self.settings)


Step = Callable[[Scene], Any]


@dataclass(frozen=True)
class Remedy:
    """What happens, the advice in the note of `a`, what is done then, and the ids in the mirror of `a` after it."""

    spoil: Step
    advice: str
    apply: Step
    found: list[int]


def not_converted(scene: Scene) -> None:
    """Texts become numbers, which depends on the server's settings."""
    scene.stream.create(1, A)
    scene.stream.put(2, A, 1)
    scene.stream.ddl(3, "ALTER TABLE `a` MODIFY COLUMN `name` INT", A, NUMBERED)
    scene.stream.put(4, NUMBERED, 2, name=2)
    scene.stream.watermark(9)


def loaded_again(scene: Scene) -> None:
    scene.stream.ddl(10, "TRUNCATE TABLE `a`", NUMBERED)
    for number in (1, 2, 3):
        scene.stream.put(11, NUMBERED, number, name=number)
    scene.stream.watermark(19)
    scene.lake().run()
    assert rebuild(scene.lake(), "s.a").errors == {}


def not_counted(scene: Scene) -> None:
    """Rows of before the key got a column since, and no stream says what it is in each of them."""
    scene.stream.create(1, KEYLESS)
    scene.stream.put(2, KEYLESS, 1)
    scene.stream.ddl(3, "ALTER TABLE `a` ADD COLUMN `b` INT DEFAULT 5", KEYLESS, replace(WIDER, key=None))
    scene.stream.ddl(4, "ALTER TABLE `a` ADD PRIMARY KEY(`id`)", replace(WIDER, key=None), WIDER)
    scene.stream.put(5, WIDER, 2, b=2)
    scene.stream.watermark(9)


def wider_loaded_again(scene: Scene) -> None:
    scene.stream.ddl(10, "TRUNCATE TABLE `a`", WIDER)
    for number in (1, 2):
        scene.stream.put(11, WIDER, number, b=number)
    scene.stream.watermark(19)
    scene.lake().run()
    assert rebuild(scene.lake(), "s.a").errors == {}


def without_key(scene: Scene) -> None:
    """A column that was NULL in a row gets into the key; the source gave the row a value by the statement."""
    scene.stream.create(1, WIDER)
    scene.stream.put(2, WIDER, 1, b=None)
    scene.stream.ddl(3, "ALTER TABLE `a` DROP PRIMARY KEY, ADD PRIMARY KEY(`id`, `b`)", WIDER, WIDER)
    scene.stream.watermark(9)


def created_again(scene: Scene) -> None:
    stream = scene.stream
    stream.create(10, NEW)
    for number in (1, 2):
        stream.put(11, NEW, number)
    for before, after in ((A, OLD), (NEW, A)):
        stream.rename(12, before, after)
    stream.put(13, A, 3)
    stream.drop(14, OLD)
    stream.watermark(19)
    scene.lake().run()


def plain(scene: Scene) -> None:
    scene.stream.create(1, A)
    scene.stream.put(2, A, 1)
    scene.stream.watermark(9)


def taken_name(scene: Scene) -> None:
    plain(scene)
    catalog = scene.lake().lake.catalog
    catalog.create_namespace_if_not_exists(("s",))
    catalog.create_table(("s", "a"), pa.schema([("mine", pa.int64())]))


def renamed(scene: Scene) -> None:
    scene.lake().lake.catalog.rename_table(("s", "a"), ("s", "mine"))
    scene.lake().mirrors()


def unfit_partition(scene: Scene) -> None:
    plain(scene)
    scene.settings["partition"] = "day(name)"


def no_partition(scene: Scene) -> None:
    scene.settings["partition"] = "none"
    scene.lake().mirrors()


LOAD_AGAIN = "copy the rows to another table, TRUNCATE the table and insert them again; then `ticdc-assets rebuild`"
REMEDIES: dict[str, Remedy] = {
    "a conversion": Remedy(not_converted, LOAD_AGAIN, loaded_again, [1, 2, 3]),
    "rows from before the key": Remedy(not_counted, LOAD_AGAIN, wider_loaded_again, [1, 2]),
    "a key without a value": Remedy(without_key, "create the table again at the source", created_again, [1, 2, 3]),
    "a name that another table has": Remedy(taken_name, "Rename that table", renamed, [1]),
    "a partition of another type": Remedy(
        unfit_partition,
        "Give its table another `partition` in the config, or `none`; then run again.",
        no_partition,
        [1],
    ),
}


@pytest.mark.variants(1)
@pytest.mark.parametrize("remedy", REMEDIES.values(), ids=REMEDIES.keys())
def test_the_remedy_in_the_note_lets_the_table_go_on(remedy: Remedy, tmp_path: Path):
    scene = Scene(SmallStream(tmp_path))
    remedy.spoil(scene)
    lake = scene.lake()

    lake.run()

    assert states(lake) == {"a": "stopped"}
    assert remedy.advice in notes(lake)[0]
    remedy.apply(scene)
    lake = scene.lake()
    assert set(states(lake).values()) <= {"live", "dropped"}, notes(lake)
    assert states(lake)["a"] == "live"
    record = lake.records()["s", "a"]
    rows = lake.lake.catalog.load_table(tuple(record.mirror or ())).scan().to_arrow().to_pylist()
    assert sorted(row["id"] for row in rows) == remedy.found
    assert all(row[layout.COMMIT_TS] for row in rows)
    assert lake.lake.control.newest(complete=True) == lake.lake.control.newest()
