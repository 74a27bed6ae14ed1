"""Bad input: each hazard has one outcome for one table, says so in a sentence, and loses or doubles no row.

The pattern: break the bucket, run, look at the table and at all the others; mend, run, compare with what happened.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets.changes import order
from ticdc_assets.errors import DecodeError
from ticdc_assets.pipeline import publish
from ticdc_assets.pipeline.task import DecodeTask, FileFormat, TaskFile
from ticdc_assets.pipeline import storage_files
from ticdc_assets.protocols import canal_json, csv
from ticdc_assets.protocols.csv import CsvOptions
from ticdc_assets.spark import LocalWorkers
from ticdc_assets.tables.control import Control
from ticdc_assets_tests.fixtures import workloads
from ticdc_assets_tests.pipeline.small_feeds import CREATE, BrokenRunError, Feed, Sink, column, cut_out, hand_made
from ticdc_assets_tests.protocols.happened import Change
from ticdc_assets_tests.sources.storage_bucket import ID, NAME

USERS, ORDERS, CODES = ("shop", "users"), ("shop", "orders"), ("shop", "codes")
T, U = ("s", "t"), ("s", "u")

Break = Callable[[Path], None]


@pytest.fixture
def sink(tmp_path: Path) -> Sink:
    """Two tables with a file each; the tests break the first."""
    sink = Sink(tmp_path / "bucket")
    for name in (T, U):
        sink.table(name)
    sink.file(U, 1, [sink.insert(U, 110, 1, "one"), sink.insert(U, 120, 2, "two")])
    return sink


def assert_others_are_whole(feed: Feed, *others: tuple[str, str]) -> None:
    assert feed.found(*others) == feed.expected(*others)
    assert {feed.state(name) for name in others} == {"live"}


def assert_whole(feed: Feed) -> None:
    """Everything that happened, once; and another run finds nothing to do."""
    assert feed.found() == feed.expected()
    assert {record.state for record in feed.lake.records().values()} == {"live"}
    snapshots = feed.lake.snapshots()
    assert feed.run() is None
    assert feed.lake.snapshots() == snapshots


# -- files ------------------------------------------------------------------------------------------------------------


def newest_file(feed: Feed, name: tuple[str, str], suffix: str = "csv") -> Path:
    return sorted(feed.bucket.joinpath(*name).rglob(f"CDC*.{suffix}"))[-1]


def cut_at(mark: bytes, more: int) -> Break:
    """Ends a file some bytes behind the last occurrence of a mark."""

    def broken(path: Path) -> None:
        data = path.read_bytes()
        path.write_bytes(data[: data.rindex(mark) + more])

    return broken


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def removed(path: Path) -> None:
    path.unlink()


def replaced_by_rubbish(path: Path) -> None:
    path.write_bytes(b"\xff\xd8 not a file of TiCDC's\n" * 20)


@pytest.mark.parametrize(
    ("broken", "state", "said"),
    [
        (cut_at(b'"shop"', 3), "waiting", "whole record"),
        (cut_at("日".encode(), 2), "waiting", "whole record"),
        (cut_at(b"\r\n", 1), "waiting", "whole record"),
        (emptied, "waiting", "an empty file"),
        (removed, "waiting", "no such file"),
        (replaced_by_rubbish, "stopped", "records of the configured protocol"),
    ],
    ids=["cut inside quotes", "cut inside a character", "cut inside a line end", "empty", "removed", "replaced"],
)  # fmt: skip
def test_a_broken_file_holds_its_table_alone_until_it_is_restored(
    broken: Break, state: str, said: str, tmp_path: Path
):
    feed = cut_out("storage-csv", [USERS, ORDERS], tmp_path)
    path = next(p for p in sorted(feed.bucket.joinpath(*USERS).rglob("CDC*.csv"), reverse=True) if "日".encode() in p.read_bytes())
    for later in sorted(path.parent.glob("CDC*.csv")):
        if later > path:
            later.unlink()
    (path.parent / "meta/CDC.index").write_text(f"{path.name}\n")
    whole = path.read_bytes()
    feed.truth = without_missing_files(feed)
    broken(path)

    feed.run()

    assert feed.state(USERS) == state
    assert said in feed.note(USERS)
    assert path.name in feed.note(USERS)
    assert feed.record(USERS).watermark == 0
    assert feed.found(USERS) == Counter()
    assert feed.quarantined() == []
    assert feed.complete_tso() == 0
    assert_others_are_whole(feed, ORDERS)

    path.write_bytes(whole)
    feed.run()
    assert_whole(feed)
