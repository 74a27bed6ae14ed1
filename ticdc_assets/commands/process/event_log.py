"""Dagster's event log in SQLite, with its connections kept open while one process writes hundreds of events.

Dagster opens and closes a database for each event. The last connection that closes a database in WAL mode also copies
the WAL into it, so the events of a small run took longer than its changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from dagster._core.storage.event_log import SqliteEventLogStorage
from dagster._core.storage.sqlite import SQLITE_BUSY_TIMEOUT_SECONDS
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool, StaticPool

if TYPE_CHECKING:
    import dagster as dg
    from sqlalchemy import Connection, Engine


@contextmanager
def connections_kept(instance: dg.DagsterInstance) -> Iterator[None]:
    """Keep one connection to each database of the instance's event log while the body runs. Each event is still
    committed on its own, and other processes read and write the same files.

    Does nothing for an event log that is not in SQLite files.
    """
    storage = instance.event_log_storage
    if type(storage) is not SqliteEventLogStorage:
        yield
        return
    kept = _KeptConnections(storage)
    storage._connect = kept.connect  # type: ignore[method-assign]  # noqa: SLF001  it has no setting for this
    try:
        yield
    finally:
        with suppress(AttributeError):
            del storage._connect  # noqa: SLF001
        kept.close()


class _KeptConnections:
    """Replaces `SqliteEventLogStorage._connect`, with a pool of one connection."""

    def __init__(self, storage: SqliteEventLogStorage) -> None:
        self._storage = storage
        self._engines: dict[str, Engine] = {}

    @contextmanager
    def connect(self, shard: str) -> Iterator[Connection]:
        """A connection to the database of a run, or to the index, in a transaction of its own."""
        with self._storage._db_lock:  # noqa: SLF001
            if shard not in self._engines:
                self._engines[shard] = self._opened(shard)
            with self._engines[shard].begin() as connection:
                yield connection

    def _opened(self, shard: str) -> Engine:
        place = self._storage.conn_string_for_shard(shard)
        timeout = {"timeout": SQLITE_BUSY_TIMEOUT_SECONDS}
        if shard not in self._storage._initialized_dbs:  # noqa: SLF001
            self._storage._initdb(create_engine(place, poolclass=NullPool, connect_args=timeout))  # noqa: SLF001
            self._storage._initialized_dbs.add(shard)  # noqa: SLF001
        return create_engine(place, poolclass=StaticPool, connect_args={**timeout, "check_same_thread": False})

    def close(self) -> None:
        """Close all connections."""
        for engine in self._engines.values():
            engine.dispose()
