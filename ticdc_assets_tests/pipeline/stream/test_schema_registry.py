"""The Avro protocol with its schemas from a registry over HTTP: the same changes, and no registry for a replay."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets.errors import SourceError
from ticdc_assets.protocols.avro.decoder import registry_from_json
from ticdc_assets.sources import schema_registry
from ticdc_assets_tests.fixtures import Workload, workloads
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.sources.registry_server import QUICK, Registry, answer, registry_of

WORKLOAD = workloads("avro-ext", "seed1")[0]
USER, PASSWORD = "ann", "s3cret"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_registry, "RequestPolicy", lambda: QUICK)


def schemas_of(workload: Workload) -> dict[int, str]:
    return registry_from_json((workload.root / "registry.json").read_bytes(), "registry.json")


def lake_of(folder: Path, registry: Any) -> FeedLake:
    """A capture without the registry's file in its folder."""
    folder.mkdir(exist_ok=True)
    capture = folder / "capture" / "messages.jsonl"
    if not capture.exists():
        capture.parent.mkdir()
        shutil.copy(WORKLOAD.root / "messages.jsonl", capture)
    return FeedLake(WORKLOAD, folder, capture, schema_registry=registry)


def changes(lake: FeedLake) -> dict[str, list[str]]:
    """The changes of every table, in an order of their own."""
    newest = lake.lake.control.newest()
    tables = {r.table: r.changelog for r in newest.tables if r.changelog} if newest else {}
    scans = {name: lake.lake.catalog.load_table(tuple(identifier)).scan() for name, identifier in tables.items()}
    return {name: sorted(repr(row) for row in scan.to_arrow().to_pylist()) for name, scan in scans.items()}


def test_a_registry_gives_the_changes_that_its_file_gives(tmp_path: Path):
    with Registry(registry_of(schemas_of(WORKLOAD))).running() as registry:
        by_url = lake_of(tmp_path / "url", {"url": registry.url, "auth": {"user": USER, "password": PASSWORD}})
        by_url.publish()
    by_file = lake_of(tmp_path / "file", {"file": str(WORKLOAD.root / "registry.json")})
    by_file.publish()

    assert changes(by_url) == changes(by_file)
    assert any(changes(by_url).values())
    assert by_url.lake.control.quarantined() == []
    paths = [path for path, _ in registry.asked]
    assert len(paths) == len(set(paths))
    assert all(headers["Authorization"].startswith("Basic ") for _, headers in registry.asked)


def test_a_replay_needs_no_registry(tmp_path: Path):
    with Registry(registry_of(schemas_of(WORKLOAD))).running() as registry:
        lake = lake_of(tmp_path, {"url": registry.url})
        lake.publish()
        asked = len(registry.asked)
    before = changes(lake)
    assert asked == len(lake.lake.control.registered(registry.url)) > 0

    for name in ("watermarks", "schemas"):
        lake.lake.catalog.drop_table((*lake.lake.control.namespace, name))
    again = lake_of(tmp_path, {"url": registry.url})
    report = again.publish()

    assert report is not None
    assert changes(again) == before


def test_later_messages_of_known_schemas_need_no_registry(tmp_path: Path):
    with Registry(registry_of(schemas_of(WORKLOAD))).running() as registry:
        lake = lake_of(tmp_path, {"url": registry.url})
        lake.publish()
    capture = tmp_path / "capture" / "messages.jsonl"
    lines = [json.loads(line) for line in capture.read_text().splitlines()]
    row = next(line for line in reversed(lines) if line["value"])
    last = max(line["offset"] for line in lines if line["topic"] == row["topic"])
    with capture.open("a") as file:
        file.write(json.dumps({**row, "offset": last + 1}) + "\n")

    report = lake_of(tmp_path, {"url": registry.url}).publish()

    assert report is not None
    assert report.quarantined == 0


def test_a_schema_that_the_registry_does_not_know_quarantines_its_messages_only(tmp_path: Path):
    schemas = schemas_of(WORKLOAD)
    lost = next(iter(schemas))
    with Registry(registry_of({i: text for i, text in schemas.items() if i != lost})).running() as registry:
        lake = lake_of(tmp_path, {"url": registry.url})
        lake.publish()

    quarantined = lake.lake.control.quarantined()
    assert quarantined
    assert all(f"schema id {lost}, which is not" in record.reason for record in quarantined)
    assert any(changes(lake).values())


def test_a_registry_of_other_messages_publishes_nothing_and_the_right_one_continues(tmp_path: Path):
    schemas = schemas_of(WORKLOAD)
    known: dict[int, str] = {}
    with Registry(registry_of(known)).running() as registry:
        lake = lake_of(tmp_path, {"url": registry.url})
        with pytest.raises(SourceError, match="expected a registry that knows schemas of the messages, found none of"):
            lake.publish()
        assert lake.lake.control.newest() is None

        known.update(schemas)
        lake_of(tmp_path, {"url": registry.url}).publish()
    by_file = lake_of(tmp_path / "file", {"file": str(WORKLOAD.root / "registry.json")})
    by_file.publish()

    assert changes(lake) == changes(by_file)
    assert lake.lake.control.quarantined() == []


@pytest.mark.parametrize("status", [401, 500])
def test_a_registry_that_fails_stops_the_run_and_publishes_nothing(tmp_path: Path, status: int):
    with Registry(answer(status, {"message": "row 42"})).running() as registry:
        lake = lake_of(tmp_path, {"url": registry.url, "auth": {"user": USER, "password": PASSWORD}})
        with pytest.raises(SourceError) as raised:
            lake.publish()

    assert f"HTTP {status}" in str(raised.value)
    assert "row 42" not in str(raised.value)
    assert PASSWORD not in str(raised.value)
    assert lake.lake.control.newest() is None
