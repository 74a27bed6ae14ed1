"""Disks, files and catalogs that fail: nothing half-done shows, errors say what to do, the next run is right."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets import moments
from ticdc_assets.cli import main
from ticdc_assets.errors import ConfigError, LakeError, TicdcAssetsError
from ticdc_assets.faults import plain
from ticdc_assets.moments import Moment
from ticdc_assets.tables import catalog
from ticdc_assets_tests.apart import apart
from ticdc_assets_tests.pipeline import scarce
from ticdc_assets_tests.pipeline.small_feeds import Feed, Sink
from ticdc_assets_tests.pipeline.two_tables import T, U, assert_once, more, sink

FROM = (Moment.LOOKED, Moment.BEFORE_CHANGELOG_COMMIT)
FROM_TOO = (Moment.CHANGELOGS_MADE, Moment.DECODED, Moment.BEFORE_CURSOR)
DISK_BYTES = 4 << 20
WAREHOUSE = ("a disk that cannot be written",)
DISKS = ("a full disk", *WAREHOUSE)


@contextmanager
def listening(listen: Callable[[Moment], None]) -> Iterator[None]:
    moments.LISTENERS.append(listen)
    try:
        yield
    finally:
        moments.LISTENERS.remove(listen)


def fault_of(feed: Feed, since: Moment, trouble: AbstractContextManager[None]) -> TicdcAssetsError | None:
    """How a run ends that meets the trouble from a moment on to its end; None where it did not matter."""
    begun: list[AbstractContextManager[None]] = []

    def begin(reached: Moment) -> None:
        if reached is since and not begun:
            begun.append(trouble)
            trouble.__enter__()

    try:
        with listening(begin):
            feed.run()
    except Exception as error:  # noqa: BLE001
        return plain(error)
    finally:
        assert begun, "the moment was never reached"
        trouble.__exit__(None, None, None)
    return None


# -- the machine ------------------------------------------------------------------------------------------------------

SCARCITIES = {
    "a full disk": (scarce.full, ("ENOSPC", "SQLITE_FULL", "SQLITE_IOERR")),
    "a disk that cannot be written": (scarce.read_only, ("EROFS", "SQLITE_READONLY", "SQLITE_CANTOPEN")),
    "files that may not grow": (scarce.small_files, ("EFBIG", "SQLITE_FULL", "SQLITE_IOERR")),
    "too many open files": (scarce.few_open_files, ("EMFILE", "SQLITE_CANTOPEN")),
}


def meets(what: str, folder: Path, moments_met: tuple[Moment, ...]) -> list[str]:
    """Runs that meet a scarcity from each moment on; what each said."""
    trouble, _ = SCARCITIES[what]
    folder.mkdir()
    if what in DISKS:
        scarce.own_disk(folder, DISK_BYTES * (1 + len(moments_met)))
    sink(folder / "warm").feed(folder / "warm" / "lake").run()  # what is imported late is there
    said = []
    for number, moment in enumerate(moments_met):
        here = folder / str(number)
        made = sink(here)
        feed = made.feed(here / "lake")
        fault = fault_of(feed, moment, trouble(here / "lake" / "warehouse" if what in WAREHOUSE else folder))
        said.append("nothing" if fault is None else f"{type(fault).__name__}: {fault}")
        feed.run()
        more(made)
        feed = made.feed(here / "lake")
        feed.run()
        assert_once(feed, publications_each=None)
        assert feed.run() is None
    return said


@pytest.mark.parametrize(
    ("what", "since"),
    [
        ("a full disk", FROM[1:]),
        ("files that may not grow", FROM[:1]),
        *(pytest.param(what, (*FROM, *FROM_TOO), marks=pytest.mark.matrix) for what in SCARCITIES),
    ],
)
def test_a_machine_that_lacks_something_leaves_the_tables_as_they_were(
    what: str, since: tuple[Moment, ...], tmp_path: Path
):
    if what in DISKS and not scarce.may_have_own_disk(tmp_path):
        pytest.skip("this machine lets no process mount a disk of its own")

    said = apart(meets, what, tmp_path / "disk", since)

    # A run may get by with the few files that it may open.
    assert what == "too many open files" or any(text != "nothing" for text in said)
    for text in said:
        assert text == "nothing" or (text.startswith("LakeError") and any(kind in text for kind in SCARCITIES[what][1]))


# -- the catalog ------------------------------------------------------------------------------------------------------


@pytest.fixture
def made(tmp_path: Path) -> Sink:
    return sink(tmp_path)


@pytest.mark.parametrize("since", [*FROM, *(pytest.param(since, marks=pytest.mark.matrix) for since in FROM_TOO)])
def test_a_catalog_that_another_holds_for_long_is_told_and_the_next_run_is_right(
    made: Sink, since: Moment, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(catalog, "BUSY_SECONDS_MAX", 0.1)
    folder = made.folder.parent / "lake"
    feed = made.feed(folder)

    @contextmanager
    def held() -> Iterator[None]:
        other = sqlite3.connect(folder / "catalog.db", check_same_thread=False)
        other.execute("BEGIN EXCLUSIVE")
        yield
        other.rollback()
        other.close()

    fault = fault_of(feed, since, held())

    assert isinstance(fault, LakeError)
    assert fault.found == "SQLITE_BUSY"
    assert "let it end" in fault.todo
    feed.run()
    assert_once(feed)


def test_a_lake_whose_catalog_is_missing_is_not_begun_anew(made: Sink):
    folder = made.folder.parent / "lake"
    made.feed(folder).run()
    (folder / "catalog.db").rename(folder / "elsewhere")
    more(made)

    with pytest.raises(ConfigError, match="the catalog's database, since its warehouse holds tables"):
        made.feed(folder).run()

    (folder / "elsewhere").rename(folder / "catalog.db")
    feed = made.feed(folder)
    feed.run()
    assert_once(feed, publications_each=2)


@pytest.mark.parametrize("command", ["tables", "run"])
def test_a_command_on_a_catalog_that_is_no_database_says_so_in_a_sentence(made: Sink, command: str, capfd: Any):
    folder = made.folder.parent / "lake"
    made.feed(folder)
    (folder / "catalog.db").write_bytes(b"something else" * 400)

    assert main([command, "--config", str(folder / "changefeeds.yaml")]) == 1

    out, err = capfd.readouterr()
    assert "SQLITE_NOTADB" in err
    assert "Restore the catalog's database" in err
    assert "Traceback" not in out + err


def drop(feed: Feed) -> None:
    feed.lake.lake.catalog.drop_table(tuple(feed.record(T).changelog or ()))


def make_anew(feed: Feed) -> None:
    """The table dropped, and one of its name and properties without its rows."""
    identifier = tuple(feed.record(T).changelog or ())
    old = feed.lake.lake.catalog.load_table(identifier)
    feed.lake.lake.catalog.drop_table(identifier)
    feed.lake.lake.catalog.create_table(identifier, old.schema(), properties=old.properties)


def make_a_foreign_one(feed: Feed) -> None:
    identifier = tuple(feed.record(T).changelog or ())
    old = feed.lake.lake.catalog.load_table(identifier)
    feed.lake.lake.catalog.drop_table(identifier)
    feed.lake.lake.catalog.create_table(identifier, old.schema())


def roll_back(feed: Feed) -> None:
    table = feed.lake.lake.catalog.load_table(tuple(feed.record(T).changelog or ()))
    with table.manage_snapshots() as manage:
        manage.set_current_snapshot(table.snapshots()[0].snapshot_id)


@pytest.mark.parametrize(
    "change",
    [drop, *(pytest.param(one, marks=pytest.mark.matrix) for one in (make_anew, make_a_foreign_one)), roll_back],
)
def test_a_table_that_is_not_the_one_that_was_written_stops_the_run(made: Sink, change: Callable[[Feed], None]):
    feed = made.feed(made.folder.parent / "lake")
    feed.run()
    more(made)
    feed.run()
    change(feed)
    made.file(T, 4, [made.insert(T, 2100, 5, "five")])
    made.bucket.checkpoint(3000)

    with pytest.raises(ConfigError, match="s__changes"):
        feed.run()

    newest = feed.lake.lake.control.newest()
    assert newest is not None
    assert newest.tso == 2000


@pytest.mark.parametrize("change", [pytest.param(drop, marks=pytest.mark.matrix), make_anew])
def test_a_table_that_is_replaced_while_a_run_goes_on_is_not_written(made: Sink, change: Callable[[Feed], None]):
    folder = made.folder.parent / "lake"
    feed = made.feed(folder)
    feed.run()
    more(made)
    once: list[None] = []

    def replace_it(reached: Moment) -> None:
        if reached is Moment.DECODED and not once:
            once.append(None)
            change(feed)

    with listening(replace_it), pytest.raises(ConfigError, match="the table that earlier runs wrote"):
        feed.run()


def test_a_table_that_was_dropped_and_made_again_at_the_source_before_the_record_keeps_to_itself(made: Sink):
    def end(reached: Moment) -> None:
        if reached is Moment.BEFORE_CURSOR:
            raise LakeError("here", "to go on", "the end", "Run again.")

    with listening(end), pytest.raises(LakeError):
        made.feed(made.folder.parent / "lake").run()
    made.alter(T, 500, "DROP TABLE `t`", [])
    made.table(T, version=600)
    made.file(T, 1, [made.insert(T, 700, 1, "again")], version=600)
    made.bucket.checkpoint(2000)
    feed = made.feed(made.folder.parent / "lake")

    feed.run()

    assert feed.found() == feed.expected()
    assert feed.run() is None


# -- files ------------------------------------------------------------------------------------------------------------


def vanish(path: Path) -> None:
    path.unlink()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def become_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def become_a_loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def be_closed(path: Path) -> None:
    path.chmod(0)


def mend(path: Path, content: bytes) -> None:
    if path.is_dir():
        path.rmdir()
    else:
        path.unlink(missing_ok=True)
    path.write_bytes(content)


@pytest.mark.parametrize(
    "harm",
    [
        vanish,
        *(pytest.param(one, marks=pytest.mark.matrix) for one in (cut, become_a_folder)),
        become_a_loop,
        be_closed,
    ],
)
def test_a_file_that_fails_between_listing_and_reading_holds_its_table_alone(made: Sink, harm: Callable[[Path], None]):
    if harm is be_closed and os.geteuid() == 0:
        pytest.skip("no file is closed to this user")
    folder = made.folder.parent / "lake"
    [path] = (made.folder / "s/t/100").glob("CDC*2.csv")
    content = path.read_bytes()
    feed = made.feed(folder)

    with listening(lambda reached: harm(path) if reached is Moment.CHANGELOGS_MADE else None):
        feed.run()

    assert (feed.state(T), feed.state(U)) == ("waiting", "live")
    assert feed.found(U) == feed.expected(U)
    assert path.name in feed.note(T)
    mend(path, content)
    feed.run()
    assert_once(feed)
