"""Lakes of two changefeeds: one whose stream tells no statements, and one that it takes them from."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import yaml

from ticdc_assets.config import load
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.run import run_of
from ticdc_assets.spark import LocalWorkers
from ticdc_assets_tests.fixtures import Workload
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.protocols.happened import statements

CANAL = "kafka://host/topic?protocol=canal-json&enable-tidb-extension=true"


def write_statements(workload: Workload, path: Path) -> Path:
    """A capture with the statements of a log and nothing else, as Canal-JSON tells them."""
    end = max(event.get("commit_ts", event.get("ts", 0)) for event in workload.events)
    sent = [_message("QUERY", s, t, q, {"commitTs": ts}, is_ddl=True) for ts, s, t, q in statements(workload)]
    sent.append(_message("TIDB_WATERMARK", "", "", "", {"watermarkTs": end}))
    lines = [
        {"topic": "ddl", "partition": 0, "offset": n, "key": None, "value": b64encode(m).decode(), "ts_ms": 0}
        for n, m in enumerate(sent)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def _message(kind: str, schema: str, table: str, sql: str, extension: dict[str, int], is_ddl: bool = False) -> bytes:
    ms = next(iter(extension.values())) >> 18
    names = {"id": 0, "database": schema, "table": table, "type": kind, "isDdl": is_ddl, "sql": sql, "es": ms, "ts": 0}
    rest = dict.fromkeys(("pkNames", "sqlType", "mysqlType", "data", "old"))
    return json.dumps({**names, **rest, "_tidb": extension}).encode()


class FedLake(FeedLake):
    """A workload's changefeed with `ddl_from` another: another workload's, or one of statements alone."""

    def __init__(self, workload: Workload, folder: Path, other: Workload | None = None, **settings: Any) -> None:
        super().__init__(workload, folder, **settings)
        path = folder / "changefeeds.yaml"
        written: dict[str, Any] = yaml.safe_load(path.read_text())
        written["changefeeds"]["feed"]["ddl_from"] = "ddl"
        written["changefeeds"]["ddl"] = self._other(other, folder)
        path.write_text(yaml.safe_dump(written))
        self.config = load(path, {})
        self.lake = Lake(self.config, self.config.changefeed("feed"))

    def _other(self, other: Workload | None, folder: Path) -> dict[str, Any]:
        target = {"mirror": "other_{schema}.{table}", "changelog": "other_{schema}__changes.{table}"}
        if other is None:
            capture = write_statements(self.workload, folder / "statements.jsonl")
            return {"sink_uri": CANAL, "source": {"capture": str(capture)}, "target": target}
        capture = other.root / "messages.jsonl"
        source = {"capture": str(capture)} if capture.exists() else {"storage": str(other.root / "data")}
        settings = {"sink_uri": other.variant["sink_uri"], "config": other.variant["config"], "source": source}
        return {**settings, "time_zone": other.time_zone, "target": target}

    def run_other(self, until: int | None = None) -> None:
        """Run the other changefeed."""
        run = run_of(Lake(self.config, self.config.changefeed("ddl")), until)
        pending = run.scan()
        if not pending.is_empty:
            run.publish_changelogs(pending, LocalWorkers())
