"""Tables that a TiDB lived, streamed and run: after every run each mirror holds what the server had."""

from __future__ import annotations

from pathlib import Path

import pytest

from ticdc_assets.changes import layout
from ticdc_assets.schema.model import Kind
from ticdc_assets_tests.pipeline.small_streams import SmallStream
from ticdc_assets_tests.tidb.recorded import recorded
from ticdc_assets_tests.tidb.recording import History
from ticdc_assets_tests.tidb.replayed import SCHEMA, TableState, steps_of
from ticdc_assets_tests.tidb.streamed import Streamed

TABLES = 40
KEYS = frozenset({Kind.TINYINT, Kind.SMALLINT, Kind.MEDIUMINT, Kind.INT, Kind.BIGINT, Kind.VARCHAR, Kind.VARBINARY})
RUNS = (3, 3, 2, 2)
"""Steps before each run."""


def has_plain_key(history: History) -> bool:
    """Whether the table has at all times a key of types that a mirror can be found by."""
    state = TableState()
    for step in history["steps"]:
        state = state.after(step)
        if not state.key or any(state.types[name].kind not in KEYS for name in state.key):
            return False
    return not any(step.held for step in steps_of(history))


@pytest.mark.long
@pytest.mark.spark
def test_mirrors_hold_what_the_server_had_after_every_run(tmp_path: Path):
    chosen = [history for history in recorded("random") if has_plain_key(history)][:TABLES]
    assert len(chosen) == TABLES
    streamed = Streamed(SmallStream(tmp_path), chosen)
    lake = streamed.stream.lake()

    for steps in RUNS:
        streamed.go_on(steps)
        lake.run()
        records = lake.records()
        live = {table: records[SCHEMA, table] for table in streamed.tables if records[SCHEMA, table].state == "live"}
        held = {records[SCHEMA, table].note for table in streamed.tables.keys() - live.keys()}
        wrong = {
            table: (streamed.tables[table].values(), found)
            for table, record in live.items()
            if (found := _rows(lake.lake.catalog.load_table(tuple(record.mirror)))) != streamed.tables[table].values()
        }

        assert wrong == {}
        assert all("a value's result is not certain" in note for note in held), held
        assert len(live) >= TABLES * 0.8
    assert streamed.is_over


def _rows(mirror) -> dict[int, dict]:
    rows = mirror.scan().to_arrow().to_pylist()
    return {row["rn"]: {name: cell for name, cell in row.items() if name != layout.COMMIT_TS} for row in rows}
