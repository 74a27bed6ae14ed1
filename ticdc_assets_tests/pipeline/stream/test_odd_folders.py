"""Folders whose names have marks of a URI: all that a config names in them is found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml

from ticdc_assets.cli import main
from ticdc_assets.config import load
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.run import run_of
from ticdc_assets.spark import LocalWorkers
from ticdc_assets_tests.deliveries.avro_wire import Avro
from ticdc_assets_tests.deliveries.database import RowChange
from ticdc_assets_tests.deliveries.wires import CanalJson, Wire
from ticdc_assets_tests.pipeline.small_streams import TOPIC, SmallStream, at, shape

A = shape("a")
ODD = "report #1? %41 b&c"
CLAIMED = {
    "large-message-handle-option": "claim-check",
    "claim-check-storage-uri": "file:///claims",
    "claim-check-raw-value": True,
}


def config_in(folder: Path, wire: Wire, **settings: Any) -> Path:
    """A config whose lake is elsewhere: a warehouse has no such name."""
    lake = folder.parent / "lake"
    catalog = {"type": "sql", "uri": f"sqlite:///{lake}/catalog.db", "warehouse": str(lake / "warehouse")}
    feed = {"sink_uri": wire.sink_uri, "source": {"capture": "capture"}, **settings}
    path = folder / "changefeeds.yaml"
    path.write_text(yaml.safe_dump({"catalog": catalog, "changefeeds": {"feed": feed}}))
    return path


def ids_of(path: Path) -> dict[str, list[int]]:
    config = load(path, {})
    lake = Lake(config, config.changefeed("feed"))
    run = run_of(lake)
    run.publish_changelogs(run.scan(), LocalWorkers())
    newest = lake.control.newest()
    assert newest is not None
    tables = {r.table: lake.catalog.load_table(tuple(r.changelog)) for r in newest.tables if r.changelog}
    return {name: sorted(table.scan().to_arrow().column("id").to_pylist()) for name, table in tables.items()}


@pytest.mark.parametrize("claims", ["claims ?#%41", "file://{}"], ids=["folder", "uri"])
def test_a_capture_with_claim_check_files_is_read(tmp_path: Path, claims: str, capfd: Any):
    stream = SmallStream(tmp_path / ODD)
    stream.create(1, A)
    stream.put(2, A, 1)
    folder = stream.folder / "claims ?#%41"
    folder.mkdir()
    sent = CanalJson().row(RowChange(at(3), A, "I", {"id": 2, "name": "large"}))
    (folder / "one.json").write_text(json.dumps(sent))
    keys = {**sent, "data": [{"id": "2"}], "_tidb": {**sent["_tidb"], "claimCheckLocation": "file:///claims/one.json"}}
    stream.send(TOPIC, 0, (None, json.dumps(keys, separators=(",", ":")).encode()))
    stream.watermark(5)
    config = {"sink": {"kafka-config": {"large-message-handle": CLAIMED}}}

    path = config_in(stream.folder, CanalJson(), config=config, claim_check=claims.format(quote(str(folder))))

    assert ids_of(path) == {"a": [1, 2]}
    folder.rename(stream.capture / "claim-check")
    assert main(["inspect", str(stream.capture)]) == 0
    assert main(["tables", "--config", str(path)]) == 0
    assert capfd.readouterr().out.count("s.a ") == 2


def test_a_registry_and_schema_files_are_read(tmp_path: Path):
    folder = tmp_path / ODD
    folder.mkdir()
    stream = SmallStream(folder, Avro(folder, told=True))
    (folder / "s.b-schema.sql").write_text("CREATE TABLE `b` (`id` INT PRIMARY KEY, `name` VARCHAR(20));")
    stream.create(1, A)
    for table in (A, shape("b")):
        stream.put(2, table, 1)
    stream.watermark(5)

    settings: dict[str, Any] = {"schema_registry": {"file": "registry.json"}, "schema_files": ["s.*-schema.sql"]}
    assert ids_of(config_in(folder, stream.wire, **settings)) == {"a": [1], "b": [1]}
