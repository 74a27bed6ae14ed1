"""A process that follows a source knows the files of its own commits: Java lists them only where another committed."""

from __future__ import annotations

from pathlib import Path

import pytest

from ticdc_assets_tests.pipeline.mirror.follower import ROWS, Follower
from ticdc_assets_tests.pipeline.rebuild.rebuilt import shown, sql

pytestmark = pytest.mark.spark


@pytest.fixture
def follower(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Follower:
    return Follower(tmp_path, monkeypatch)


@pytest.mark.long
def test_the_files_after_each_commit_are_those_that_java_lists(follower: Follower):
    for _ in range(ROWS):
        follower.run()
        assert follower.kept is not None
        assert set(follower.kept) == follower.as_java_lists_them()
    follower.listed = 0
    follower.run()

    assert follower.listed == 0
    assert any(file.vector is not None for file in follower.kept or ())
    names = {1: None, 2: "5", 3: "6", 4: "7", 5: "7", 6: "7", 7: "new"}
    assert shown(follower.feed, "plain") == [(key, name) for key, name in names.items() if name is not None]


@pytest.mark.long
def test_after_a_commit_of_another_java_lists_the_files(follower: Follower):
    for _ in range(3):
        follower.run()
    sql(follower.feed, "DELETE FROM {}.plain WHERE id = 3")
    assert follower.kept is None
    follower.listed = 0

    follower.run()

    assert follower.listed == 1
    assert set(follower.kept or ()) == follower.as_java_lists_them()
    assert (4, "new") in shown(follower.feed, "plain")


@pytest.mark.long
def test_a_mirror_with_many_files_takes_as_many_calls_as_one_with_few(follower: Follower):
    """Java would be asked for each file and each of its deletes otherwise."""
    calls = []
    for _ in range(ROWS):
        follower.run()
        follower.feed.lake.lake.__dict__.pop("mirror_files")  # as in a new process
        follower.calls = 0
        follower.run()
        calls.append(follower.calls)

    assert calls[-1] <= calls[1]
