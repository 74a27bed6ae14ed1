"""A database of a real TiDB for tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from ticdc_assets_tests.sources.upstream.real_tidb import SERVER, Tidb

SCHEMA = "ticdc_assets_reconciled"

needs_tidb = pytest.mark.skipif(not SERVER, reason="TICDC_ASSETS_TIDB names no TiDB server")


@pytest.fixture
def tidb() -> Iterator[Tidb]:
    with closing(Tidb()) as opened:
        opened.run(f"DROP DATABASE IF EXISTS {SCHEMA}", f"CREATE DATABASE {SCHEMA}", f"USE {SCHEMA}")
        yield opened
        opened.run(f"DROP DATABASE {SCHEMA}")


def upstream_of(tidb: Tidb) -> dict[str, Any]:
    return {"host": tidb.upstream.host, "port": tidb.upstream.port, "user": "root"}
