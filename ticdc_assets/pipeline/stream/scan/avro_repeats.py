"""Finds the repeats in an Avro stream, whose deletes have no commit_ts.

After a restart, TiCDC sends all changes above its checkpoint again. In a partition, the changes of one key keep their
order, so a row that is not newer than the newest row of its key is a repeat. A delete is a repeat where it follows such
a row, or another delete with no row between. The delete before a repeated newest row is removed as well: it either
belongs to the second delivery and preceded that row in the first one, or comes again later in the second delivery.
Changes
that an earlier run read are not known here: such repeats stay in the changelog, and the mirror is still correct.

A row that follows the delete of its key, was not sent before, and is older than an earlier row of its table in the
partition, is misplaced: another writer changed the order of the messages, and the row may be the one that was deleted.
Rows up to the first one of a run may be repeats of an earlier run, so these are not counted.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class _Key:
    """The newest row of a key, the last row that was sent, and the delete after the newest row."""

    newest: int = 0
    last: int = 0
    delete: int | None = None


@dataclass(slots=True)
class Repeats:
    """One table's changes in one partition, added in order. `ordinals` has the repeats, `misplaced` the number of
    misplaced rows."""

    ordinals: set[int] = field(default_factory=set)
    misplaced: int = 0
    _first: int = 0
    _newest: int = 0
    _keys: dict[bytes, _Key] = field(default_factory=dict)

    def row(self, ordinal: int, commit_ts: int, key: bytes) -> None:
        """Add the message with this ordinal as a row."""
        state = self._keys.setdefault(key, _Key())
        state.last = commit_ts
        if commit_ts > state.newest:
            if commit_ts >= self._newest:
                self._newest = commit_ts
                self._first = self._first or commit_ts
            elif state.delete is not None and commit_ts > self._first:
                self.misplaced += 1
            state.newest, state.delete = commit_ts, None
            return
        self.ordinals.add(ordinal)
        if commit_ts == state.newest and state.delete is not None:
            self.ordinals.add(state.delete)
            state.delete = None

    def delete(self, ordinal: int, key: bytes) -> None:
        """Add the message with this ordinal as a delete."""
        state = self._keys.setdefault(key, _Key())
        if state.last < state.newest or state.delete is not None:
            self.ordinals.add(ordinal)
        else:
            state.delete = ordinal
