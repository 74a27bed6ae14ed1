"""A mirror of millions of rows, then rounds of 50,000 changes: 30,000 updates, 10,000 inserts, 10,000 deletes.

The base is the recorded stream's inserts, copied. A round's updates and deletes are the recorded ones of those very
rows, so old values and new ones fit each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from ticdc_assets_tests.bench.streams.buckets import Bucket, Tree, rows
from ticdc_assets_tests.bench.streams.changes import Change, Log
from ticdc_assets_tests.bench.streams.copies import KEYS_APART, shift
from ticdc_assets_tests.bench.streams.recorded import KEY, TABLE
from ticdc_assets_tests.bench.streams.templates import Shift, Template

COPIES_A_ROUND: Final = 2
"""How many copies of the base a round changes: one has 20,758 updated rows."""


@dataclass(frozen=True)
class Amounts:
    """The changes of a round, by operation."""

    update: int = 30_000
    insert: int = 10_000
    delete: int = 10_000

    @property
    def all(self) -> int:
        return self.update + self.insert + self.delete


@dataclass(frozen=True)
class Moved:
    """A recorded change of one copy: `line` is its ordinal in the bucket's files."""

    line: int
    copy: int
    change: Change


def in_file_order(lines: Sequence[bytes], extension: str, log: Log) -> list[Change]:
    """The change in each line; inside a commit TiCDC sorts by operation."""
    by_key = {(change.commit_ts, change.key): change for change in log.changes}
    marks = [rows(line, extension) for line in lines]
    return [by_key[mark.tsos[0], mark.keys[-1]] for mark in marks]


class Stages:
    """A bucket with so many rows, then rounds of changes. Each is a folder of the files that join the bucket."""

    def __init__(self, like: Bucket, log: Log, root: Path, row_count: int) -> None:
        self._log = log
        self._like = like
        self._root = root
        self._inserts = sum(change.op == "insert" for change in log.changes)
        self._copies = max(COPIES_A_ROUND, round(row_count / self._inserts))
        self._rounds = 0
        self._lines = [line for path in like.data_files for line in path.read_bytes().splitlines(keepends=True)]
        self._files = 0
        self.folders: list[str] = []
        self._changes = in_file_order(self._lines, like.extension, log)
        inserts = [line for line, change in zip(self._lines, self._changes, strict=True) if change.op == "insert"]
        self._add(rows(b"".join(inserts), like.extension), [shift(copy) for copy in range(self._copies)])

    @property
    def rows(self) -> int:
        return self._copies * self._inserts

    def add_round(self, amounts: Amounts) -> list[dict[str, Any]]:
        """Add a round of changes; the same as rows with their operation as `type`."""
        chosen = list(self._chosen(amounts))
        later = shift(self._copies + self._rounds)
        lines = [
            rows(self._lines[m.line], self._like.extension).shifted(replace(later, key=m.copy * KEYS_APART))
            for m in chosen
        ]
        self._rounds += 1
        self._add(rows(b"".join(lines), self._like.extension), [Shift()], later.tso)
        return [{**m.change.row, KEY: m.change.key + m.copy * KEYS_APART, "type": m.change.op.upper()} for m in chosen]

    def _chosen(self, amounts: Amounts) -> Iterator[Moved]:
        """In the stream's order; every row is changed once at most."""
        first = self._rounds * COPIES_A_ROUND
        fresh_copy = self._copies + self._rounds
        left = {"update": amounts.update, "delete": amounts.delete, "insert": amounts.insert}
        found: list[Moved] = []
        for copy in (*range(first, first + COPIES_A_ROUND), fresh_copy):
            touched: set[int] = set()
            for line, change in enumerate(self._changes):
                is_wanted = (change.op == "insert") == (copy == fresh_copy) and change.key not in touched
                if change.op != "insert" or copy == fresh_copy:
                    touched.add(change.key)
                if is_wanted and left[change.op]:
                    left[change.op] -= 1
                    found.append(Moved(line, copy, change))
        return iter(sorted(found, key=lambda moved: moved.line))

    def _add(self, template: Template, shifts: Sequence[Shift], tso: int = 0) -> None:
        self.folders.append(str(self._root / str(len(self.folders))))
        tree = Tree(Path(self.folders[-1]), self._like)
        tree.add_table(TABLE, [])
        for distance in shifts:
            self._files += 1
            tree.add_file(TABLE, self._files, template.shifted(distance))
        tree.index(TABLE, self._files)
        tree.checkpoint(self._like.checkpoint + max(tso, shifts[-1].tso))

    def true_rows(self, rounds: Sequence[list[dict[str, Any]]]) -> pa.Table:
        """The true rows of the keys that the rounds changed."""
        current: dict[int, dict[str, Any]] = {}
        for row in (row for changed in rounds for row in changed):
            current[row[KEY]] = row
        return self._log.table(row for row in current.values() if row["type"] != "DELETE")
