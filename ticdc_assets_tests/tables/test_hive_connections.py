"""Each use of a Hive catalog has a connection of its own, in each thread and within another use."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from ticdc_assets.tables.catalog import ConnectionForEachUse


class Metastore:
    """Numbers its connections. `open` has those that are not closed."""

    def __init__(self) -> None:
        self.made, self.open, self._lock = 0, set[int](), threading.Lock()

    @contextmanager
    def connection(self) -> Iterator[int]:
        with self._lock:
            self.made += 1
            number = self.made
            self.open.add(number)
        try:
            yield number
        finally:
            self.open.remove(number)


def test_threads_do_not_share_a_connection_and_close_their_own():
    metastore = Metastore()
    connections, both = ConnectionForEachUse(metastore.connection), threading.Barrier(2, timeout=30)

    def use() -> tuple[int, bool]:
        with connections as own:
            both.wait()
            with connections as inner:
                assert inner != own
                both.wait()
            return own, own in metastore.open

    with ThreadPoolExecutor(2) as pool:
        first, second = (future.result() for future in [pool.submit(use), pool.submit(use)])

    assert first[0] != second[0]
    assert (first[1], second[1]) == (True, True)
    assert metastore.open == set()
