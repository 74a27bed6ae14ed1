"""Buckets of which a test breaks one table: each hazard has one outcome for that table, and loses or doubles no row.

The pattern: break the bucket, run, look at the table and at all the others; mend, run, compare with what happened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets_tests.pipeline.small_feeds import Feed, Name, Sink

T, U = ("s", "t"), ("s", "u")
USERS, ORDERS = ("shop", "users"), ("shop", "orders")


def written(folder: Path, kind: type[Sink] = Sink, **options: Any) -> Any:
    """A sink of this kind with two tables, the second with two rows; the tests break the first."""
    sink = kind(folder / "bucket", **options)
    for name in (T, U):
        sink.table(name)
    sink.file(U, 1, [sink.insert(U, 110, 1, "one"), sink.insert(U, 120, 2, "two")])
    return sink


@pytest.fixture
def sink(tmp_path: Path) -> Sink:
    return written(tmp_path)


def assert_held(feed: Feed, held: dict[Name, tuple[str, ...]]) -> None:
    """Some tables are held, each with its state and reason, and have no rows; all others are complete."""
    for name, (state, *said) in held.items():
        assert feed.state(name) == state, feed.note(name)
        assert all(part in feed.note(name) for part in said), feed.note(name)
    assert feed.found(*held) == Counter()
    others = feed.lake.records().keys() - held.keys()
    assert others
    assert feed.found(*others) == feed.expected(*others)
    assert {feed.state(other) for other in others} == {"live"}
    assert feed.lake.complete_tso() == 0


def assert_whole(feed: Feed) -> None:
    """Everything that happened, once; all tables live; and another run finds nothing to do."""
    assert feed.found() == feed.expected()
    assert {record.state for record in feed.lake.records().values()} == {"live"}
    snapshots = feed.lake.snapshots()
    assert feed.run() is None
    assert feed.lake.snapshots() == snapshots
    assert feed.lake.complete_tso() > 0


def one_table_each(hazards: Iterable[str]) -> dict[str, Name]:
    return {hazard: ("s", f"t{number}") for number, hazard in enumerate(hazards)}
