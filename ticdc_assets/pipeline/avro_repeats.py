"""Which changes of an Avro stream TiCDC only sent again, although deletes do not say their commit_ts.

After a restart TiCDC sends anew all that lies above its checkpoint. In a partition the changes of one key keep their
order, so a row that is not newer than the newest one of its key is a repeat. A delete is one where it follows such a
row, or another delete with no row between. The delete that stands before a repeated newest row is dropped as well:
either it belongs to the second delivery and stood before that row in the first, or the second one will bring it again.
What was sent before by an earlier run is not known here: such changes come twice, and the table ends right.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class _Key:
    """The newest row of a key, the one told last, and the delete that came after the newest."""

    newest: int = 0
    last: int = 0
    delete: int | None = None


@dataclass(slots=True)
class Repeats:
    """One table's changes in one partition, told in their order; `ordinals` has those that were sent again."""

    ordinals: set[int] = field(default_factory=set)
    _keys: dict[bytes, _Key] = field(default_factory=dict)

    def row(self, ordinal: int, commit_ts: int, key: bytes) -> None:
        """The `ordinal`th message is a row."""
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
        """The `ordinal`th message is a delete."""
        state = self._keys.setdefault(key, _Key())
        if state.last < state.newest or state.delete is not None:
            self.ordinals.add(ordinal)
        else:
            state.delete = ordinal
