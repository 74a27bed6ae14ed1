"""What all models of TiCDC's sinks have in common: each table's events in order, statements in theirs, from a
checkpoint on."""

from __future__ import annotations

from dataclasses import dataclass, field

from ticdc_assets_tests.deliveries.database import Database, DatabaseEvent, RowChange, Statement


@dataclass
class Queues:
    """The events to send. Between two statements on it a table advances independently of the others; a statement
    goes out when all before it have, and all rows of its table before it."""

    database: Database
    checkpoint: int
    _sent: dict[int, int] = field(default_factory=dict)
    _statement_ts: int = 0

    def pending(self) -> dict[int, list[DatabaseEvent]]:
        """What of each table is still to be sent, in order."""
        found: dict[int, list[DatabaseEvent]] = {}
        for event in self._log():
            found.setdefault(source_table_of(event), []).append(event)
        return {n: queue[self._sent.get(n, 0) :] for n, queue in found.items() if len(queue) > self._sent.get(n, 0)}

    def options(self, pending: dict[int, list[DatabaseEvent]]) -> list[int]:
        """The tables of which something can be sent now."""
        statements = (event for event in self._log() if isinstance(event, Statement))
        next_one = next((event for event in statements if event.commit_ts > self._statement_ts), None)
        return [n for n, queue in pending.items() if isinstance(queue[0], RowChange) or queue[0] is next_one]

    def resolved(self, pending: dict[int, list[DatabaseEvent]]) -> int:
        """The TSO up to which everything has been sent."""
        return min([queue[0].commit_ts - 1 for queue in pending.values()], default=self.database.now)

    def rows(self, source_table: int, queue: list[DatabaseEvent], count: int) -> list[RowChange]:
        """The next rows of a table, up to its next statement; a transaction may be cut anywhere."""
        taken: list[RowChange] = []
        for event in queue[:count]:
            if isinstance(event, Statement):
                break
            taken.append(event)
        self._sent[source_table] = self._sent.get(source_table, 0) + len(taken)
        return taken

    def statement(self, statement: Statement) -> None:
        self._sent[statement.source_table] = self._sent.get(statement.source_table, 0) + 1
        self._statement_ts = statement.commit_ts

    def restart(self, checkpoint: int) -> None:
        self.checkpoint = self._statement_ts = checkpoint
        self._sent.clear()

    def move_table(self, choice: int, floor: int) -> None:
        """Another node takes a table over, and sends it again from `floor` or from its last statement."""
        if not self._sent:
            return
        source_table = sorted(self._sent)[choice % len(self._sent)]
        events = [event for event in self._log() if source_table_of(event) == source_table]
        statement_tsos = (e.commit_ts for e in events if isinstance(e, Statement) and e.commit_ts <= self._statement_ts)
        begin = max(floor, *statement_tsos, 0)
        self._sent[source_table] = min(self._sent[source_table], sum(event.commit_ts <= begin for event in events))

    def _log(self) -> list[DatabaseEvent]:
        return [event for event in self.database.log if event.commit_ts > self.checkpoint]


def source_table_of(event: DatabaseEvent) -> int:
    return event.source_table if isinstance(event, Statement) else event.shape.source_table
