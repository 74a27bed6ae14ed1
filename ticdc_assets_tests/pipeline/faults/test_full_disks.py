"""Disks and files that fail: no partial result is visible, errors say what to do, the next run is right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ticdc_assets.failpoints import Failpoint
from ticdc_assets_tests.apart import apart
from ticdc_assets_tests.pipeline.faults import scarce
from ticdc_assets_tests.pipeline.faults.trouble import FROM, FROM_TOO, fault_of, listening
from ticdc_assets_tests.pipeline.two_tables import T, U, assert_once, more, sink

DISK_BYTES = 4 << 20
WAREHOUSE = ("a disk that cannot be written",)
DISKS = ("a full disk", *WAREHOUSE)


# -- the machine ------------------------------------------------------------------------------------------------------

SCARCITIES = {
    "a full disk": (scarce.full, ("ENOSPC", "SQLITE_FULL", "SQLITE_IOERR")),
    "a disk that cannot be written": (scarce.read_only, ("EROFS", "SQLITE_READONLY", "SQLITE_CANTOPEN")),
    "files that may not grow": (scarce.small_files, ("EFBIG", "SQLITE_FULL", "SQLITE_IOERR")),
    "too many open files": (scarce.few_open_files, ("EMFILE", "SQLITE_CANTOPEN")),
}


def meets(what: str, folder: Path, moments_met: tuple[Failpoint, ...]) -> list[str]:
    """Runs without a resource from each failpoint on; returns the output of each."""
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
def test_a_run_on_a_machine_that_lacks_something_changes_no_table(
    what: str, since: tuple[Failpoint, ...], tmp_path: Path
):
    if what in DISKS and not scarce.may_have_own_disk(tmp_path):
        pytest.skip("this machine lets no process mount a disk of its own")

    said = apart(meets, what, tmp_path / "disk", since)

    # A run may get by with the few files that it may open.
    assert what == "too many open files" or any(text != "nothing" for text in said)
    for text in said:
        assert text == "nothing" or (text.startswith("LakeError") and any(kind in text for kind in SCARCITIES[what][1]))


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
def test_a_file_that_fails_between_listing_and_reading_holds_its_table_alone(
    tmp_path: Path, harm: Callable[[Path], None]
):
    if harm is be_closed:
        apart(fails_without_rights, tmp_path)
    else:
        fails_in_between(tmp_path, harm)


def fails_without_rights(folder: Path) -> None:
    scarce.without_rights()
    fails_in_between(folder, be_closed)


def fails_in_between(home: Path, harm: Callable[[Path], None]) -> None:
    made = sink(home)
    folder = home / "lake"
    [path] = (made.folder / "s/t/100").glob("CDC*2.csv")
    content = path.read_bytes()
    feed = made.feed(folder)

    with listening(lambda hit: harm(path) if hit is Failpoint.CHANGELOGS_MADE else None):
        feed.run()

    assert (feed.state(T), feed.state(U)) == ("waiting", "live")
    assert feed.found(U) == feed.expected(U)
    assert path.name in feed.note(T)
    mend(path, content)
    feed.run()
    assert_once(feed)
