"""What the note of a table in a bucket advises is done: the table goes on, with all rows that were not given up."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets.advice import Advice
from ticdc_assets.pipeline.storage import late_files
from ticdc_assets_tests.pipeline.faults.broken_tables import T, assert_whole, written
from ticdc_assets_tests.pipeline.small_feeds import CREATE, Feed, JsonSink, Sink, column, hand_made
from ticdc_assets_tests.protocols.happened import Change
from ticdc_assets_tests.sources.storage.bucket import ID, NAME

FOLDER = "s/t/100"
NUMBERS = (1, 2, 3)


@dataclass
class Scene:
    """A bucket in which one table is broken, and the changefeed that reads it: `protocol` and `options` are what the
    config says of the sink. `lost` are the changes that a remedy gives up."""

    folder: Path
    sink: Sink
    protocol: str = "csv"
    options: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    lost: Counter[Change] = field(default_factory=Counter)
    lake: str = "lake"
    kept: dict[Path, bytes] = field(default_factory=dict)

    def path(self, number: int) -> Path:
        return self.sink.folder / FOLDER / self.sink.bucket.layout.data_name(None, number, 20)

    @property
    def index(self) -> Path:
        return self.sink.folder / FOLDER / "meta/CDC.index"

    @property
    def schema_file(self) -> Path:
        [found] = (self.sink.folder / "s/t/meta").glob("schema_100_*.json")
        return found

    def write(self, path: Path, content: bytes) -> None:
        """Write a file, which `restore` brings back as it was."""
        self.kept.setdefault(path, path.read_bytes())
        path.write_bytes(content)

    def remove(self, path: Path) -> None:
        self.kept.setdefault(path, path.read_bytes())
        path.unlink()

    def restore(self) -> None:
        for path, content in self.kept.items():
            path.write_bytes(content)

    def skip(self, *globs: str, ids: tuple[int, ...] = ()) -> None:
        """Name files in `skip_files`, and give up the rows of `t` with these ids."""
        self.settings["skip_files"] = [*globs]
        self.lost = Counter(c for c in self.sink.rows if (c.schema, c.table) == T and dict(c.new or ())["id"] in ids)

    def elsewhere(self) -> None:
        """Read the source in a changefeed of another name, with another `target`."""
        self.lake = "other"

    def feed(self) -> Feed:
        csv = {"include-commit-ts": self.sink.commit_ts, "output-old-value": False}
        truth = Counter(self.sink.rows) - self.lost
        folder, config = self.folder / self.lake, {"csv": csv, **self.options}
        return hand_made(self.sink.folder, folder, self.protocol, truth, config, **self.settings)


Spoil = Callable[[Scene], Any]


@dataclass(frozen=True)
class Remedy:
    """The state of the table `t` and the advice in its note, what breaks it, and what the advice says to do."""

    state: str
    advice: str
    spoil: Spoil
    apply: Spoil
    after_a_run: bool = False
    commit_ts: bool = True
    kind: type[Sink] = Sink


def two_of_one_number(scene: Scene) -> None:
    scene.remove(scene.index)
    shutil.copyfile(scene.path(2), scene.path(2).with_name("CDC000002.csv"))


def link_outside(scene: Scene) -> None:
    (scene.folder / "outside").mkdir()
    (scene.sink.folder / "s/t/200").symlink_to(scene.folder / "outside")


def index_of(text: str) -> Spoil:
    return lambda scene: scene.write(scene.index, text.encode())


def written_again(scene: Scene) -> None:
    """TiCDC lost its index, and writes the first file again with another row."""
    index_of("CDC00000000000000000001.csv\n")(scene)
    scene.write(scene.path(1), scene.sink.line(T, "I", 1100, 11, "elf"))
    scene.remove(scene.path(2))
    scene.sink.bucket.checkpoint(2000)


def grown(scene: Scene) -> None:
    scene.write(scene.path(3), scene.path(3).read_bytes() * 2)
    scene.sink.bucket.checkpoint(2000)


def grown_by_a_row(scene: Scene) -> None:
    scene.write(scene.path(3), scene.path(3).read_bytes() + scene.sink.insert(T, 1100, 11, "elf"))
    scene.sink.bucket.checkpoint(2000)


def late_file(scene: Scene) -> None:
    """A file comes to the folder of a version, behind rows of a newer one."""
    scene.sink.alter(T, 1100, "ALTER TABLE `t` COMMENT 'x'")
    scene.sink.file(T, 1, [scene.sink.insert(T, 1110, 11, "elf")], version=1100)
    scene.sink.bucket.checkpoint(2000)
    scene.feed().run()
    scene.sink.file(T, 4, [scene.sink.insert(T, 120, 4, "vier")])
    scene.sink.bucket.checkpoint(3000)


def by_day(scene: Scene) -> None:
    """The rows are in a folder of a day, as `date-separator = "day"` makes it."""
    version = scene.sink.folder / FOLDER
    (version / "2025-07-31/meta").mkdir(parents=True)
    for path in (*(scene.path(number) for number in NUMBERS), scene.index):
        path.rename(version / "2025-07-31" / path.relative_to(version))


def by_table_id(scene: Scene) -> None:
    for number, name in (("77", "t"), ("78", "u")):
        (scene.sink.folder / "s" / name).rename(scene.sink.folder / number)
    (scene.sink.folder / "s").rmdir()


def foreign_schema_file(scene: Scene) -> None:
    """The schema file of another table is in the folder of this one."""
    path = scene.sink.bucket.schema("s", "v", 150, [ID, NAME], CREATE.format("v"), folder="s/t")
    (scene.sink.folder / path).rename(scene.sink.folder / "s/t/meta/schema_150_0000000007.json")


def schema_text(old: str, new: str) -> Spoil:
    def spoil(scene: Scene) -> None:
        scene.write(scene.schema_file, scene.schema_file.read_bytes().replace(old.encode(), new.encode()))

    return spoil


def rows_of_columns(**sent: str) -> Spoil:
    """A file of rows with these columns, whatever the table has."""

    def spoil(scene: Scene) -> None:
        scene.protocol = "canal-json"
        assert isinstance(scene.sink, JsonSink)
        scene.sink.file(T, 4, [scene.sink.message(T, 120, sent)])

    return spoil


def short_records(scene: Scene) -> None:
    """Records of CSV without their last column."""
    scene.sink.file(T, 4, [scene.sink.line(T, "I", 120, number) for number in range(4, 16)])


def rows_before(scene: Scene) -> None:
    """Rows from before the first schema of the table."""
    scene.sink.file(T, 4, [scene.sink.line(T, "I", 90, 4, "name")])


# -- what is broken, and mended ----------------------------------------------------------------------------------------


def without(number: int) -> Spoil:
    return lambda scene: scene.remove(scene.path(number))


def cut(number: int) -> Spoil:
    return lambda scene: scene.write(scene.path(number), scene.path(number).read_bytes()[:-3])


def rubbish(scene: Scene) -> None:
    scene.write(scene.path(2), b"\xff\xd8 rubbish\n" * 20)


def without_schema_file(scene: Scene) -> None:
    scene.remove(scene.schema_file)


def cut_schema_file(scene: Scene) -> None:
    scene.write(scene.schema_file, scene.schema_file.read_bytes()[:90])


def read_as_canal_json(scene: Scene) -> None:
    scene.protocol = "canal-json"


def sent(*rows: Image, then: Spoil) -> Spoil:
    """The rows come out as these once `then` is done."""

    def apply(scene: Scene) -> None:
        scene.sink.rows += [Change(*T, "I", 120, row, None) for row in rows]
        then(scene)

    return apply


def sent_before(then: Spoil) -> Spoil:
    def apply(scene: Scene) -> None:
        scene.sink.rows.append(Change(*T, "I", 90, (("id", 4), ("name", "name")), None))
        then(scene)

    return apply


def altered(action: str, *columns: dict[str, Any]) -> Spoil:
    """The schema file of a statement that was lost is there again."""
    return lambda scene: scene.sink.alter(T, 115, f"ALTER TABLE `t` {action}", [*columns])


OTHER_INDEX = index_of("CDC_d-1_00000000000000000003.csv\n")
NO_ARRIVAL = "If the file does not arrive, restore it, or name it in skip_files if its rows may be lost."
ABSENT = "Restore the file, or name it in skip_files if its rows may be lost."
TWO = "remove the other one, or name it in skip_files. Its rows are not read then."
LATE = "If they are repeats, name the files in skip_files; else read the source in a changefeed of another name"
NO_SCHEMA = "Restore the schema file, or name the folder with /* behind it in skip_files if its rows may be lost."
RESTORE = Scene.restore
RESTORE_SCHEMAS = "If schema files were removed from the bucket, restore them"
GIVE_UP = "if the rows may be lost, name the file in skip_files."
MORE = column("more", "VARCHAR", ColumnPrecision="9")
Image = tuple[tuple[str, Any], ...]


def skipping(*globs: str, ids: tuple[int, ...] = ()) -> Spoil:
    return lambda scene: scene.skip(*globs, ids=ids)


def removing(path: str) -> Spoil:
    return lambda scene: (scene.sink.folder / path).unlink()


def configured(**options: Any) -> Spoil:
    return lambda scene: scene.options.update({name.replace("_", "-"): value for name, value in options.items()})


NAME_LEFT_OUT = configured(column_selectors=[{"matcher": ["s.t"], "columns": ["*", "!name"]}])


def as_csv(scene: Scene) -> None:
    scene.protocol = "csv"


REMEDIES: dict[str, Remedy] = {
    # -- files
    "the last file is missing, restored": Remedy("waiting", NO_ARRIVAL, without(3), RESTORE),
    "the last file is missing, given up": Remedy("waiting", NO_ARRIVAL, without(3), skipping("*/CDC*3.csv", ids=(3,))),
    "another file is missing, restored": Remedy("stopped", ABSENT, without(2), RESTORE),
    "another file is missing, given up": Remedy("stopped", ABSENT, without(2), skipping("*/t/*/CDC*2.csv", ids=(2,))),
    "a file is cut, restored": Remedy("waiting", "the table continues when it is complete.", cut(2), RESTORE),
    "a file is cut, given up": Remedy(
        "waiting", "name it in skip_files if its rows may be lost.", cut(2), skipping("*/CDC*2.csv", ids=(2,))
    ),
    "a file is another thing, restored": Remedy(
        "stopped", "If TiCDC did not write the file, restore it", rubbish, RESTORE
    ),
    "a file is another thing, given up": Remedy(
        "stopped", "or name it in skip_files if", rubbish, skipping("*/CDC*2.csv", ids=(2,))
    ),
    "two files of one number, skipped": Remedy("stopped", TWO, two_of_one_number, skipping("*/CDC000002.csv")),
    "two files of one number, removed": Remedy("stopped", TWO, two_of_one_number, removing(f"{FOLDER}/CDC000002.csv")),
    "a link": Remedy("stopped", "Remove the link.", link_outside, removing("s/t/200")),
    # -- indexes
    "half an index": Remedy("waiting", "The next run reads it again.", index_of("CDC0000"), RESTORE),
    "the index of other files, restored": Remedy("stopped", "Restore the index, or", OTHER_INDEX, RESTORE),
    "the index of other files, skipped": Remedy(
        "stopped", "name it in skip_files: then the folder is listed.", OTHER_INDEX, skipping("s/t/100/meta/CDC.index")
    ),
    # -- the order of arrival, without commit_ts
    "an index fell back": Remedy(
        "stopped", "Restore the files and the index as they were.", written_again, RESTORE, True, False
    ),
    "a file has grown, restored": Remedy("stopped", "restore it, or read the source", grown, RESTORE, True, False),
    "a file has grown, read elsewhere": Remedy(
        "stopped",
        "in a changefeed of another name, with another `target`.",
        grown_by_a_row,
        Scene.elsewhere,
        True,
        False,
    ),
    "a late file, given up": Remedy("stopped", LATE, late_file, skipping("*/CDC*4.csv", ids=(4,)), True, False),
    "a late file, read elsewhere": Remedy("stopped", LATE, late_file, Scene.elsewhere, True, False),
    # -- the config
    "another protocol": Remedy("stopped", "Give the changefeed's own protocol", read_as_canal_json, as_csv),
    "another date-separator": Remedy(
        "stopped", "Give the changefeed's own date-separator", by_day, configured(date_separator="day")
    ),
    "folders by table id": Remedy(
        "stopped",
        "Set use-table-id-as-path",
        by_table_id,
        configured(cloud_storage_config={"use-table-id-as-path": True}),
    ),
    # -- schema files
    "no schema file, restored": Remedy("waiting", NO_SCHEMA, without_schema_file, RESTORE),
    "no schema file, given up": Remedy("waiting", NO_SCHEMA, without_schema_file, skipping("s/t/100/*", ids=NUMBERS)),
    "another table's schema file": Remedy(
        "stopped",
        "Move the file to its own table's folder, or name it in skip_files if its rows may be lost.",
        foreign_schema_file,
        skipping("s/t/meta/schema_150_*"),
    ),
    "a schema file is cut": Remedy("waiting", "The next run reads it again.", cut_schema_file, RESTORE),
    "a schema file is no JSON": Remedy(
        "stopped", "Restore the file from the bucket's history", schema_text(":", "="), RESTORE
    ),
    "rows of no time of the table, restored": Remedy(
        "stopped", RESTORE_SCHEMAS, rows_before, sent_before(then=lambda s: s.sink.table(T, 80))
    ),
    "rows of no time of the table, given up": Remedy("stopped", GIVE_UP, rows_before, skipping("*/CDC*4.csv")),
    # -- columns
    "rows lack a column, left out": Remedy(
        "stopped", Advice.LEFT_OUT, rows_of_columns(id="4"), sent((("id", 4), ("name", None)), then=NAME_LEFT_OUT),
        kind=JsonSink,
    ),
    "rows lack a column, restored": Remedy(
        "stopped", RESTORE_SCHEMAS, rows_of_columns(id="4"),
        sent((("id", 4),), then=altered("DROP COLUMN `name`", ID)), kind=JsonSink,
    ),
    "rows lack a column, given up": Remedy(
        "stopped", GIVE_UP, rows_of_columns(id="4"), skipping("*/CDC*4.json"), kind=JsonSink
    ),
    "rows have another column, restored": Remedy(
        "stopped", RESTORE_SCHEMAS, rows_of_columns(id="4", name="x", more="y"),
        sent((("id", 4), ("more", "y"), ("name", "x")), then=altered("ADD COLUMN `more` VARCHAR(9)", ID, NAME, MORE)),
        kind=JsonSink,
    ),
    "rows have another column, given up": Remedy(
        "stopped", GIVE_UP, rows_of_columns(id="4", name="x", more="y"), skipping("*/CDC*4.json"), kind=JsonSink
    ),
    "records of CSV lack a column, left out": Remedy(
        "stopped", "Compare the changefeed's options and the table's schema with the file", short_records,
        sent(*((("id", number), ("name", None)) for number in range(4, 16)), then=NAME_LEFT_OUT),
    ),
    "a type is not known": Remedy("stopped", "or upgrade.", schema_text('"INT"', '"GEOMETRY"'), RESTORE),
}  # fmt: skip


@pytest.mark.variants(18)
@pytest.mark.parametrize("remedy", REMEDIES.values(), ids=REMEDIES.keys())
def test_the_remedy_in_the_note_lets_the_table_go_on(remedy: Remedy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(late_files, "COMPARED_AFTER", timedelta(0))
    sink = written(tmp_path, remedy.kind, commit_ts=remedy.commit_ts)
    for number in NUMBERS:
        sink.file(T, number, [sink.insert(T, 110 + number, number, "name")])
    scene = Scene(tmp_path, sink)
    if remedy.after_a_run:
        scene.feed().run()
    remedy.spoil(scene)
    feed = scene.feed()

    feed.run()

    assert feed.state(T) == remedy.state, feed.note(T)
    assert remedy.advice in feed.note(T)
    remedy.apply(scene)
    feed = scene.feed()
    feed.run()
    assert_whole(feed)
