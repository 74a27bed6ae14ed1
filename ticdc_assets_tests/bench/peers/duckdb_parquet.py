"""DuckDB: read_json, the newest change of every key by arg_max, one Parquet file. No Iceberg, no changelog."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb

from ticdc_assets_tests.bench.child import serve
from ticdc_assets_tests.bench.clock import timed
from ticdc_assets_tests.bench.peers.columns import CASTS, COLUMNS


def load(scratch: Path, source: str, cores: int) -> dict[str, Any]:
    """Seconds to one Parquet file of the current rows."""
    connection = duckdb.connect(config={"threads": cores})
    row = f"STRUCT({', '.join(f'{name} VARCHAR' for name in COLUMNS)})[]"
    columns = f"{{type: 'VARCHAR', data: '{row}', _tidb: 'STRUCT(commitTs BIGINT)'}}"
    statement = f"""
        COPY (
            SELECT {CASTS} FROM (
                SELECT arg_max(type, _tidb.commitTs) AS type, arg_max(data[1], _tidb.commitTs) AS row
                FROM read_json('{source}/**/CDC*.json', format = 'newline_delimited', columns = {columns})
                GROUP BY CAST(data[1].id AS BIGINT)
            ) WHERE type <> 'DELETE'
        ) TO '{scratch}/rows.parquet' (COMPRESSION zstd)
    """
    spent, _ = timed(lambda: connection.execute(statement))
    return {**spent.as_dict(), "rows": f"{scratch}/rows.parquet"}


if __name__ == "__main__":
    serve(load)
