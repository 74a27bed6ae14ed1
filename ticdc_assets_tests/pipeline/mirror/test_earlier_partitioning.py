"""A mirror that a user partitions and then does not any more: its files of all partitionings follow the stream."""

from __future__ import annotations

from pathlib import Path

import pytest

from ticdc_assets_tests.pipeline.mirror.follower import ROWS, Follower
from ticdc_assets_tests.pipeline.rebuild.rebuilt import shown, sql

pytestmark = pytest.mark.spark


def expected(runs: int) -> list[tuple[int, str]]:
    """The rows after so many runs of a follower."""
    names = ((key, "new" if key == runs else str(min(runs, key + 3))) for key in range(1, runs + 1))
    return [(key, name) for key, name in names if key > 1 or runs < ROWS]


@pytest.mark.long
@pytest.mark.parametrize("plain_runs", [0, 3])
def test_rows_in_files_of_an_earlier_partitioning_are_replaced(
    plain_runs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    follower = Follower(tmp_path, monkeypatch)
    for _ in range(1 + plain_runs):
        follower.run()
    sql(follower.feed, "ALTER TABLE {}.plain ADD PARTITION FIELD truncate(1, name)")
    for _ in range(2):
        follower.run()
    sql(follower.feed, "ALTER TABLE {}.plain DROP PARTITION FIELD truncate(1, name)")

    for _ in range(4):
        follower.run()
        assert shown(follower.feed, "plain") == expected(follower.runs)
        assert follower.kept is None or set(follower.kept) == follower.as_java_lists_them()
