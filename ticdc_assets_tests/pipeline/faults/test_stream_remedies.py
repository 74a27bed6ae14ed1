"""What the note of a table in a stream advises is done: the table goes on, with all rows that were not given up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets.advice import Advice
from ticdc_assets_tests.deliveries.database import Column
from ticdc_assets_tests.deliveries.wires import CanalJson, Debezium, OpenProtocol, SimpleJson, Wire
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.small_streams import SmallStream, UndatedCanalJson, at, ids, shape, states
from ticdc_assets_tests.pipeline.stream.offsets.rewritten_capture import A, X, notes, rows

WIDER, NEW, OLD = shape("a", Column("b", "INT")), shape("new", Column("b", "INT")), shape("old")
CREATE = "CREATE TABLE `a` (`id` INT NOT NULL,`name` VARCHAR(20),PRIMARY KEY(`id`));\n"
Found = dict[str, list[int]]


@dataclass
class Scene:
    """A capture with a table `a`, of which something is wrong, and the changefeed that reads it."""

    stream: SmallStream
    settings: dict[str, Any] = field(default_factory=dict)
    lake_name: str = "lake"
    lines: list[str] = field(default_factory=list)

    @property
    def path(self) -> Path:
        return self.stream.capture / "messages.jsonl"

    def write(self, *offsets: int) -> None:
        """Let the capture have these messages, in this order."""
        self.lines = self.lines or self.path.read_text().splitlines(keepends=True)
        self.path.write_text("".join(self.lines[offset] for offset in offsets))

    def write_all(self) -> None:
        self.write(*range(len(self.lines)))

    def elsewhere(self) -> None:
        """Read the capture in a changefeed of its own."""
        self.lake_name = "other"

    def lake(self) -> FeedLake:
        folder, self.stream.folder = self.stream.folder, self.stream.folder / self.lake_name
        try:
            return self.stream.lake(**self.settings)
        finally:
            self.stream.folder = folder


Step = Callable[[Scene], Any]


@dataclass(frozen=True)
class Remedy:
    """What the stream and the changefeed have, the state and the advice in the note of `a`, what is done then, and the
    ids in the changelogs after that."""

    wire: Wire
    spoil: Step
    state: str
    advice: str
    apply: Step
    found: Found


def ten(scene: Scene) -> None:
    """Offsets 0 to 11: CREATE, ten rows (their ids are their offsets), a watermark above them."""
    scene.stream.create(0, A)
    rows(scene.stream, range(1, 11))
    scene.stream.watermark(20)


def with_hole(scene: Scene) -> None:
    ten(scene)
    scene.write(0, 1, 2, 3, 6, 7, 8, 9, 10, 11)


def made_again(scene: Scene) -> None:
    """The topic is deleted and created again after a run, with other messages."""
    ten(scene)
    scene.lake().publish()
    scene.write()
    again = SmallStream(scene.stream.folder / "again", scene.stream.wire)
    again.create(30, A)
    rows(again, range(31, 33))
    again.watermark(40)
    scene.path.write_bytes((again.capture / "messages.jsonl").read_bytes())


def out_of_order(scene: Scene) -> None:
    ten(scene)
    scene.write(0, 2, 1, *range(3, 11))


def not_appended(scene: Scene) -> None:
    ten(scene)
    scene.lake().publish()
    rows(scene.stream, range(11, 13))
    scene.write(11, 12)


def one_partition_of_two(scene: Scene) -> None:
    scene.settings["sink_uri"] = f"{scene.stream.wire.sink_uri}&partition-num=2"
    ten(scene)


def second_partition(scene: Scene) -> None:
    scene.stream.send("feed", 1, scene.stream.wire.watermark(at(20)))


def without_schema(scene: Scene) -> None:
    scene.stream.create(0, X)
    rows(scene.stream, range(1, 4))
    scene.stream.watermark(20)


def with_schema_file(scene: Scene) -> None:
    path = scene.stream.folder / "s.a-schema.sql"
    path.write_text(CREATE)
    scene.settings["schema_files"] = [str(path)]


def with_bootstrap(scene: Scene) -> None:
    scene.stream.bootstrap(A)


def wider_rows(scene: Scene) -> None:
    """Rows have a column that no statement adds."""
    scene.stream.create(0, A)
    rows(scene.stream, range(1, 4))
    scene.stream.put(5, WIDER, 5, b=7)
    scene.stream.put(6, WIDER, 6, b=7)
    scene.stream.watermark(20)


def lost_statement(scene: Scene) -> None:
    scene.stream.ddl(4, "ALTER TABLE `a` ADD COLUMN `b` INT", A, WIDER)


def odd_statement(scene: Scene) -> None:
    scene.stream.create(0, A)
    rows(scene.stream, range(1, 4))
    scene.stream.ddl(5, "ALTER TABLE `a` DROP COLUMN `zzz`", A)
    rows(scene.stream, range(6, 8))
    scene.stream.watermark(20)


def created_again(scene: Scene) -> None:
    """Create the table under another name with all its columns, copy the rows, and swap the names; drop the old one."""
    stream = scene.stream
    stream.create(30, NEW)
    for number in (1, 2, 3, 5, 6):
        stream.put(31, NEW, number, b=7)
    for before, after in ((A, OLD), (NEW, WIDER)):
        stream.rename(32, before, after)
    stream.put(33, WIDER, 8, b=8)
    stream.drop(34, OLD)
    stream.watermark(40)


def lacking_rows(scene: Scene) -> None:
    scene.stream.create(0, WIDER)
    rows(scene.stream, range(1, 4))
    scene.stream.watermark(20)


def with_selectors(scene: Scene) -> None:
    scene.stream.config = {"sink": {"column-selectors": [{"matcher": ["s.a"], "columns": ["*", "!b"]}]}}


TEN = {"a": list(range(1, 11))}
RESTORE = f'"feed[0]@4-5". {Advice.RESTORE_MESSAGES}'
ANEW = "restore the former capture, or read this one in a changefeed of its own."
AGAIN = "create the table again at the source: CREATE TABLE under another name with all its columns"
MADE_AGAIN: Found = {"a": [1, 2, 3, 8], "new": [1, 2, 3, 5, 6]}

REMEDIES: dict[str, Remedy] = {
    "missing offsets, restored": Remedy(OpenProtocol(), with_hole, "stopped", RESTORE, Scene.write_all, TEN),
    "missing offsets, given up": Remedy(
        OpenProtocol(), with_hole, "stopped", RESTORE,
        lambda s: s.settings.update(skip_offsets=["feed[0]@4-5"]), {"a": [1, 2, 3, 6, 7, 8, 9, 10]},
    ),
    "a topic made again, restored": Remedy(CanalJson(), made_again, "stopped", ANEW, Scene.write_all, TEN),
    "a topic made again, read elsewhere": Remedy(
        CanalJson(), made_again, "stopped", ANEW, Scene.elsewhere, {"a": [31, 32]}
    ),
    "offsets out of order": Remedy(
        UndatedCanalJson(), out_of_order, "stopped", "Sort the capture by offset.", Scene.write_all, TEN
    ),
    "messages that are not appended": Remedy(
        UndatedCanalJson(), not_appended, "stopped", "Restore the former messages at the beginning",
        Scene.write_all, {"a": list(range(1, 13))},
    ),
    "a partition without messages": Remedy(
        OpenProtocol(), one_partition_of_two, "waiting", "The table continues when they arrive", second_partition, TEN
    ),
    "no schema, with a file": Remedy(
        SimpleJson(), without_schema, "waiting", "add the table to `schema_files`", with_schema_file, {"a": [1, 2, 3]}
    ),
    "no schema, bootstrapped": Remedy(
        SimpleJson(), without_schema, "waiting", "a BOOTSTRAP or DDL message brings the schema", with_bootstrap,
        {"a": [1, 2, 3]},
    ),
    **{
        f"a lost statement in {wire.name}, restored": Remedy(
            wire, wider_rows, "stopped", "if the source of the messages still has it, restore its message",
            lost_statement, {"a": [1, 2, 3, 5, 6]},
        )
        for wire in (OpenProtocol(), CanalJson(), Debezium())
    },
    **{
        f"a lost statement in {wire.name}, created again": Remedy(
            wire, wider_rows, "stopped", AGAIN, created_again, MADE_AGAIN
        )
        for wire in (OpenProtocol(), CanalJson(), Debezium())
    },
    "a statement that does not fit": Remedy(CanalJson(), odd_statement, "stopped", AGAIN, created_again, MADE_AGAIN),
    "a column left out": Remedy(
        CanalJson(), lacking_rows, "stopped", "give its `column-selectors` in the configuration here.", with_selectors,
        {"a": [1, 2, 3]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("remedy", REMEDIES.values(), ids=REMEDIES.keys())
def test_the_remedy_in_the_note_lets_the_table_go_on(remedy: Remedy, tmp_path: Path):
    scene = Scene(SmallStream(tmp_path, remedy.wire))
    remedy.spoil(scene)
    lake = scene.lake()

    lake.publish()

    assert states(lake)["a"] == remedy.state
    assert any(remedy.advice in note for note in notes(lake)), notes(lake)
    remedy.apply(scene)
    lake = scene.lake()
    lake.publish()
    assert states(lake)["a"] == "live", notes(lake)
    assert set(states(lake).values()) <= {"live", "dropped"}, notes(lake)
    assert ids(lake) == remedy.found
    assert lake.publish() is None
    assert lake.complete_tso() > 0


# -- statements that came late ----------------------------------------------------------------------------------------


def cut_before_a_late_rename(scene: Scene) -> None:
    """Rows of `x` were read; then a rename of before comes, and the capture has lost its first messages."""
    scene.stream.create(0, X)
    for number in (1, 2):
        scene.stream.put(number, X, number)
    scene.stream.put(5, A, 5)
    scene.stream.watermark(10)
    scene.lake().publish()
    scene.stream.rename(4, X, A)
    scene.stream.put(11, A, 11)
    scene.stream.watermark(20)
    cut(scene)


def cut_before_a_late_column(scene: Scene) -> None:
    """Rows of `a` were read; then a statement of before gives their column another type."""
    scene.stream.create(0, A)
    rows(scene.stream, range(1, 6))
    scene.stream.watermark(10)
    scene.lake().publish()
    scene.stream.ddl(4, "ALTER TABLE `a` MODIFY COLUMN `name` VARBINARY(20)", A)
    scene.stream.watermark(20)
    cut(scene)


def cut(scene: Scene) -> None:
    scene.lines = scene.path.read_text().splitlines(keepends=True)
    scene.write(*range(3, len(scene.lines)))


def swapped_and_dropped(scene: Scene) -> None:
    scene.stream.create(30, NEW_A)
    for number in (31, 32):
        scene.stream.put(number, NEW_A, number)
    scene.stream.rename(34, A, OLD)
    scene.stream.rename(34, NEW_A, A)
    scene.stream.put(35, A, 35)
    scene.stream.drop(36, OLD)
    scene.stream.watermark(40)


NEW_A = shape("new")
RESTORE_THEM = "Restore them, or read the table in a changefeed of its own. Where `upstream` is set,"
LATE_REMEDIES: dict[str, tuple[Step, str, Step, str, Found]] = {
    "restored": (cut_before_a_late_rename, RESTORE_THEM, Scene.write_all, "live", {"a": [5, 11], "x": [1, 2]}),
    "read elsewhere": (cut_before_a_late_rename, RESTORE_THEM, Scene.elsewhere, "live", {"a": [5, 11]}),
    "created again": (
        cut_before_a_late_rename, AGAIN, swapped_and_dropped, "dropped", {"a": [35], "new": [31, 32], "x": [1, 2]}
    ),
    "with other columns, created again": (
        cut_before_a_late_column, "--from source` reads it again.", swapped_and_dropped, "dropped",
        {"a": [1, 2, 3, 4, 5, 35], "new": [31, 32]},
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("spoil", "advice", "apply", "state", "found"), LATE_REMEDIES.values(), ids=LATE_REMEDIES.keys()
)
def test_what_a_late_statement_holds_goes_on(
    spoil: Step, advice: str, apply: Step, state: str, found: Found, tmp_path: Path
):
    scene = Scene(SmallStream(tmp_path, CanalJson()))
    spoil(scene)
    lake = scene.lake()

    lake.publish()

    assert "stopped" in states(lake)["a"]
    assert any(advice in note for note in notes(lake)), notes(lake)
    apply(scene)
    lake = scene.lake()
    lake.publish()
    assert "live" in states(lake)["a"]
    assert "stopped" not in " ".join(states(lake).values()), notes(lake)
    assert state == "live" or states(lake)["old"] == state
    assert ids(lake) == found
    assert lake.publish() is None
    assert lake.complete_tso() > 0
