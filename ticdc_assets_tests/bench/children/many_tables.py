"""Many tables with a few changes each, and one table with as many changes: the cost of a table beyond its rows."""

from __future__ import annotations

import re
from pathlib import Path

from ticdc_assets_tests.bench.streams.buckets import Bucket, Tree, rows
from ticdc_assets_tests.bench.streams.recorded import TABLE
from ticdc_assets_tests.bench.streams.templates import Shift

CHANGES_EACH = 20
_COMMIT_TS = re.compile(rb'"commitTs":(\d+)|^"[IUD]","[^"]+","[^"]+",(\d+)')


def tables_of(count: int) -> list[str]:
    """The names of so many tables."""
    return [f"{TABLE}_{number:03}" for number in range(count)]


def spread(like: Bucket, root: Path, count: int, changes: int = CHANGES_EACH) -> int:
    """A bucket of `count` tables with the recorded stream's first changes each; the TSO up to which it is complete."""
    data, commit_ts = first_changes(like, changes)
    template = rows(data, like.extension)
    tree = Tree(root, like)
    for table in tables_of(count):
        tree.add_table(table, [template.shifted(Shift(table=table.encode()))])
    tree.checkpoint(commit_ts)
    return commit_ts


def one_table(like: Bucket, root: Path, changes: int) -> int:
    """A bucket of the recorded table with its first changes alone."""
    data, commit_ts = first_changes(like, changes)
    tree = Tree(root, like)
    tree.add_table(TABLE, [data])
    tree.checkpoint(commit_ts)
    return commit_ts


def first_changes(like: Bucket, changes: int) -> tuple[bytes, int]:
    """The stream's first records, `changes` of them and the rest of their last commit; and that commit's TSO."""
    kept: list[bytes] = []
    last = 0
    for path in like.data_files:
        for line in path.read_bytes().splitlines(keepends=True):
            commit_ts = _commit_ts(line)
            if len(kept) >= changes and commit_ts != last:
                return b"".join(kept), last
            kept.append(line)
            last = commit_ts
    return b"".join(kept), last


def _commit_ts(line: bytes) -> int:
    found = _COMMIT_TS.search(line)
    assert found is not None
    return int(found[1] or found[2])
