"""Plain Python: an orjson loop, Arrow's casts, pyiceberg; a changelog by appends, then the current rows at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from ticdc_assets_tests.bench.child import serve
from ticdc_assets_tests.bench.clock import timed
from ticdc_assets_tests.bench.peers.columns import COLUMNS

SYSTEM = {"op": pa.string(), "commit_ts": pa.int64()}


def load(scratch: Path, source: str) -> dict[str, Any]:
    """Seconds to a changelog and a mirror."""
    (scratch / "warehouse").mkdir()
    catalog = SqlCatalog("lake", uri=f"sqlite:///{scratch}/catalog.db", warehouse=f"file://{scratch}/warehouse")
    catalog.create_namespace("bench")
    changelog = catalog.create_table("bench.changes", pa.schema({**SYSTEM, **COLUMNS}.items()))
    mirror = catalog.create_table("bench.rows", pa.schema(COLUMNS.items()))
    spent, _ = timed(lambda: _load(Path(source), changelog, mirror))
    pq.write_table(mirror.scan().to_arrow(), f"{scratch}/rows.parquet")
    return {**spent.as_dict(), "rows": f"{scratch}/rows.parquet"}


def _load(source: Path, changelog: Table, mirror: Table) -> None:
    current: dict[str, dict[str, Any]] = {}
    for path in sorted(source.rglob("CDC*.json")):
        changes = [orjson.loads(line) for line in path.read_bytes().splitlines()]
        rows = [change["data"][0] for change in changes]
        meta = {
            "op": pa.array([change["type"][0] for change in changes]),
            "commit_ts": pa.array([change["_tidb"]["commitTs"] for change in changes]),
        }
        changelog.append(pa.table({**meta, **typed(rows)}))
        for change, row in zip(changes, rows, strict=True):
            if change["type"] == "DELETE":
                current.pop(row["id"], None)
            else:
                current[row["id"]] = row
    mirror.overwrite(pa.table(typed(list(current.values()))))


def typed(rows: list[dict[str, Any]]) -> dict[str, pa.Array]:
    """The columns of rows whose values are text."""
    return {name: pa.array([row[name] for row in rows], pa.string()).cast(arrow) for name, arrow in COLUMNS.items()}


if __name__ == "__main__":
    serve(load)
