"""Connections to a Hive metastore for the threads of a run.

pyiceberg's catalog has one connection. A run creates and commits its tables in several threads, whose requests would
mix in it, and the first thread that is done would close it for the others.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyiceberg.catalog.hive import HiveCatalog


class ConnectionForEachUse:
    """Takes the place of pyiceberg's connection: each `with` has a connection of its own."""

    def __init__(self, connect: Callable[[], AbstractContextManager[Any]]) -> None:
        self._connect = connect
        self._of_thread = threading.local()

    def __enter__(self) -> Any:
        connection = self._connect()
        client = connection.__enter__()
        self._open.append(connection)
        return client

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return self._open.pop().__exit__(kind, error, trace)

    @property
    def _open(self) -> list[AbstractContextManager[Any]]:
        found: list[AbstractContextManager[Any]] = self._of_thread.__dict__.setdefault("open", [])
        return found


def serve_threads(catalog: HiveCatalog) -> None:
    """Let threads use the catalog at the same time."""
    connect = catalog._create_hive_client  # noqa: SLF001  pyiceberg has no public name for either
    connections: Any = ConnectionForEachUse(lambda: connect(catalog.properties))
    catalog._client = connections  # noqa: SLF001
