"""Finds the repeats in an Avro stream, whose deletes have no commit_ts.

After a restart, TiCDC sends all changes above its checkpoint again. In a partition, the changes of one key keep their
order, so a row that is not newer than the newest row of its key is a repeat. A delete is a repeat where it follows such
a row, or another delete with no row between. The delete before a repeated newest row is removed as well: it either
belongs to the second delivery and preceded that row in the first one, or comes again later in the second delivery.
Changes
that an earlier run read are not known here: such repeats stay in the changelog, and the mirror is still correct.
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
    """One table's changes in one partition, added in order. `ordinals` has the repeats."""

    ordinals: set[int] = field(default_factory=set)
    _keys: dict[bytes, _Key] = field(default_factory=dict)

    def row(self, ordinal: int, commit_ts: int, key: bytes) -> None:
        """Add the message with this ordinal as a row."""
        state = self._keys.setdefault(key, _Key())
        state.last = commit_ts
        if commit_ts > state.newest:
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
