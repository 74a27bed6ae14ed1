"""The changelogs of captured message streams, without Spark: every change of the log once, cell by cell."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from ticdc_assets.errors import ConfigError
from ticdc_assets.protocols.registry import REGISTRY
from ticdc_assets_tests.fixtures import Workload, of_full_set, workloads
from ticdc_assets_tests.pipeline.changelog.compared import difference
from ticdc_assets_tests.pipeline.gaps import Log, as_read, as_sent, expected
from ticdc_assets_tests.pipeline.lakes import FeedLake, expected_changes
from ticdc_assets_tests.pipeline.stream.conditions import gaps_of
from ticdc_assets_tests.pipeline.upstreams import upstream_of

STREAMS = [w for w in workloads() if (w.root / "messages.jsonl").exists()]
ABOVE = (
    "canal-json-tidb/seed1",
    "open/seed1",
    "simple-json/seed1",
    "canal-json-tidb-preexist/seed1",
    "canal-json-tidb-topics/seed2",
)


@pytest.mark.parametrize("workload", STREAMS, ids=lambda w: w.name)
def test_one_run_holds_every_change_once(workload: Workload, tmp_path: Path):
    """Cell by cell, but for what the table of gaps says of the stream."""
    with upstream_of(workload) as settings:
        lake = FeedLake(workload, tmp_path / "lake", **settings)
        report = lake.publish()

    assert report is not None
    blocked = [f"{r.table}: {r.state}: {r.note}" for r in report.record.tables if r.state not in ("live", "dropped")]
    assert not blocked, " // ".join(blocked)
    assert [q.reason for q in lake.lake.control.quarantined()] == []
    gaps, log = gaps_of(lake.lake.changefeed), Log(workload)
    wanted = as_sent(expected(workload), gaps, log)
    found = as_read(lake.changes(), wanted, gaps, log)
    assert found == wanted, difference(found, wanted)
    assert lake.publish() is None  # nor does it need the upstream, which is gone


def test_a_run_up_to_0_takes_nothing_in(tmp_path: Path):
    lake = FeedLake(next(w for w in STREAMS if w.name.startswith("open/")), tmp_path / "lake")

    lake.publish(until=0)

    assert lake.changes() == Counter()


@pytest.mark.parametrize("workload", [w for w in STREAMS if w.name.startswith("avro")], ids=lambda w: w.name)
def test_a_stream_that_is_read_by_arrival_cannot_be_cut_at_a_tso(workload: Workload, tmp_path: Path):
    with pytest.raises(ConfigError, match="stop at a TSO"):
        FeedLake(workload, tmp_path / "lake").publish(until=1)


@pytest.mark.parametrize("workload", [w for w in STREAMS if w.name in ABOVE], ids=lambda w: w.name)
def test_statements_above_a_run_have_not_happened_yet(workload: Workload, tmp_path: Path):
    """Tables that they make are not there, those that they rename are as before; rows of both are in the stream."""
    lake = FeedLake(workload, tmp_path / "lake")
    for ts in sorted({entry["ts"] for entry in workload.truth}):
        lake.publish(until=ts)

        present = {(entry["schema"], entry["table"]) for entry in workload.truth if entry["ts"] == ts}
        assert set(lake.records()) == present
        assert {record.state for record in lake.records().values()} == {"live"}


@pytest.mark.parametrize(
    "workload",
    of_full_set(w for w in STREAMS if "late-bootstrap" in w.name and w.root.name == "seed2"),
    ids=lambda w: w.name,
)
def test_rows_whose_schema_only_their_drop_tells_are_read_with_it(workload: Workload, tmp_path: Path):
    """The stream ends before the next bootstrap of two tables, which were dropped."""
    lake = FeedLake(workload, tmp_path / "lake", schema_files=[])

    report = lake.publish()

    assert report is not None
    assert {r.state for r in report.record.tables} == {"live", "dropped"}
    found, wanted = lake.changes(), expected_changes(workload, True)
    # Which columns are virtual, only the CREATE TABLE would tell: compare what happened, not every cell.
    found = Counter(c[:4] for c in found.elements())
    wanted = Counter(c[:4] for c in wanted.elements())
    assert found == wanted, difference(found, wanted)


def test_every_protocol_is_in_the_fixtures():
    tested = {w.variant["sink_uri"].partition("protocol=")[2].partition("&")[0] for w in STREAMS}

    assert set(REGISTRY) <= {name.replace("open", "open-protocol") if name == "open" else name for name in tested}
