"""Mirrors that one commit moves together: whoever joins them at any moment of a run sees them at one TSO."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ticdc_assets import failpoints
from ticdc_assets.errors import StaleRunError
from ticdc_assets.failpoints import Failpoint
from ticdc_assets.pipeline.mirror import rounds
from ticdc_assets_tests.pipeline.faults.killed import dies
from ticdc_assets_tests.pipeline.faults.raced import at
from ticdc_assets_tests.pipeline.small_feeds import BrokenRunError, Feed, Name, Sink

pytestmark = pytest.mark.spark

CHECKING, SAVINGS = ("bank", "checking"), ("bank", "savings")
TOTAL = 100


def bank(folder: Path) -> Sink:
    """Two accounts in a table each, which hold 100 together."""
    made = Sink(folder / "bucket")
    for name, amount in ((CHECKING, TOTAL), (SAVINGS, 0)):
        made.table(name)
        made.file(name, 1, [made.line(name, "I", 110, 1, str(amount))])
    return made


def transfer(made: Sink, number: int) -> None:
    """A transaction that moves money from one account to the other."""
    ts = made.checkpoint + 1000 * number
    for name, amount in ((CHECKING, TOTAL - number), (SAVINGS, number)):
        made.file(name, number + 1, [made.line(name, "U", ts - 500, 1, str(amount))])
    made.bucket.checkpoint(ts)


def amounts(feed: Feed, name: Name) -> list[int]:
    """The amounts in the mirror of this name."""
    rows = feed.lake.lake.catalog.load_table(name).scan().to_arrow()
    return [int(amount) for amount in rows.column("name").to_pylist()]


def balances(feed: Feed) -> list[int]:
    """Both accounts, read by the names of their mirrors."""
    return [*amounts(feed, CHECKING), *amounts(feed, SAVINGS)]


@contextmanager
def read_at_each_moment(feed: Feed) -> Iterator[dict[Failpoint, set[int]]]:
    """What a reader sees at each moment of a run."""
    seen: dict[Failpoint, set[int]] = {}

    def read(moment: Failpoint) -> None:
        seen.setdefault(moment, set()).add(sum(balances(feed)))

    failpoints.LISTENERS.append(read)
    try:
        yield seen
    finally:
        failpoints.LISTENERS.remove(read)


@pytest.mark.parametrize("publish", ["together", "each"])
def test_a_reader_sees_both_accounts_at_one_time_only_if_they_are_published_together(
    tmp_path: Path, publish: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(rounds, "MIRRORS_AT_ONCE", 1)  # so that the reader comes between two commits
    made = bank(tmp_path)
    made.feed(tmp_path / "lake", publish=publish).lake.run()
    transfer(made, 1)
    feed = made.feed(tmp_path / "lake", publish=publish)

    with read_at_each_moment(feed) as seen:
        report = feed.lake.run()

    assert report is not None
    assert report.errors == {}
    assert report.record.complete
    assert Failpoint.AFTER_MIRROR_COMMIT in seen
    assert (set.union(*seen.values()) == {TOTAL}) is (publish == "together")
    assert balances(feed) == [TOTAL - 1, 1]


def second_names(feed: Feed) -> list[str]:
    """The clones of mirrors that the catalog has."""
    lake = feed.lake.lake
    return [name for *_, name in lake.catalog.list_tables(lake.control.namespace) if name.startswith("staged_")]


def test_a_run_that_ends_before_the_commit_publishes_nothing_and_the_next_one_all(tmp_path: Path):
    made = bank(tmp_path)
    made.feed(tmp_path / "lake", publish="together").lake.run()
    transfer(made, 1)
    feed = made.feed(tmp_path / "lake", publish="together")
    before = balances(feed)

    def end() -> None:
        raise BrokenRunError

    with at(Failpoint.BEFORE_RECORD, end), pytest.raises(BrokenRunError):
        feed.lake.run()

    assert balances(feed) == before
    assert second_names(feed) == []
    report = feed.lake.mirrors("next")
    assert report is not None
    assert report.record.complete
    assert balances(feed) == [TOTAL - 1, 1]


def test_an_overtaken_run_publishes_nothing_and_names_its_reason(tmp_path: Path):
    made = bank(tmp_path)
    made.feed(tmp_path / "lake", publish="together").lake.run()
    transfer(made, 1)
    feed, other = (made.feed(tmp_path / "lake", publish="together") for _ in range(2))
    feed.run()

    with at(Failpoint.BEFORE_RECORD, lambda: other.lake.mirrors("other")), pytest.raises(StaleRunError):
        feed.lake.mirrors("one")

    assert balances(feed) == [TOTAL - 1, 1]
    newest = feed.lake.lake.control.newest()
    assert newest is not None
    assert (newest.run_id, newest.complete) == ("other", True)


@pytest.mark.long
def test_a_mirror_that_cannot_be_brought_up_is_named_and_holds_no_other(tmp_path: Path):
    made = bank(tmp_path)
    made.feed(tmp_path / "lake", publish="together").lake.run()
    transfer(made, 1)
    feed = made.feed(tmp_path / "lake", publish="together")
    for file in feed.lake.lake.catalog.load_table(SAVINGS).inspect.files().column("file_path").to_pylist():
        Path(file.removeprefix("file:")).unlink()

    report = feed.lake.run()

    assert report is not None
    [held] = report.errors
    assert held.startswith("bank.savings")
    assert amounts(feed, CHECKING) == [TOTAL - 1]
    assert [(table.table, table.complete) for table in report.record.tables] == [("checking", True), ("savings", False)]


@pytest.mark.long
@pytest.mark.parametrize("moment", [Failpoint.AFTER_MIRROR_COMMIT, Failpoint.BEFORE_RECORD, Failpoint.AFTER_RECORD])
def test_a_killed_run_has_published_all_mirrors_or_none_and_its_second_names_are_removed(
    tmp_path: Path, moment: Failpoint
):
    made = bank(tmp_path)
    feed = made.feed(tmp_path / "lake", publish="together")
    feed.lake.run()
    transfer(made, 1)

    assert dies(tmp_path / "lake" / "changefeeds.yaml", moment, mirrors=True)

    assert balances(feed) == ([TOTAL - 1, 1] if moment is Failpoint.AFTER_RECORD else [TOTAL, 0])
    transfer(made, 2)
    feed.lake.run()
    assert balances(feed) == [TOTAL - 2, 2]
    assert second_names(feed) == []
