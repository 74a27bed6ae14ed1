"""Dagster's event log with kept connections: what one process writes, another reads at once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.storage.event_log.sqlite import sqlite_event_log
from sqlalchemy import create_engine

from ticdc_assets.commands.process.through_dagster import instance_of

_READER = """
import dagster as dg, json, sys
with dg.DagsterInstance.from_config(sys.argv[1]) as instance:
    events = instance.all_logs(sys.argv[2])
    newest = instance.get_latest_materialization_event(dg.AssetKey("table"))
    print(json.dumps([len(events), newest.asset_materialization.metadata["rows"].value]))
"""


@dg.asset(name="table")
def table() -> dg.MaterializeResult[None]:
    return dg.MaterializeResult(metadata={"rows": 7})


def test_events_of_kept_connections_are_read_by_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "dagster.yaml").write_text("telemetry: {enabled: false}\n")

    with instance_of({"DAGSTER_HOME": str(tmp_path)}) as instance:
        opened: list[str] = []
        monkeypatch.setattr(
            sqlite_event_log, "create_engine", lambda *a, **b: opened.append(a[0]) or create_engine(*a, **b)
        )
        done = dg.materialize([table], instance=instance)
        events = len(instance.all_logs(done.run_id))
        child = subprocess.run(
            [sys.executable, "-c", _READER, str(tmp_path), done.run_id], capture_output=True, text=True, check=True
        )

    assert done.success
    assert len(opened) < 3 < events  # Dagster opens one connection at least for each event
    assert json.loads(child.stdout) == [events, 7]
    assert not list(tmp_path.rglob("*.db-wal"))  # all connections are closed
