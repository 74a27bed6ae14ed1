"""`ddl_from`: an Avro changefeed with another changefeed's statements gives the same tables as TiDB."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet

from ticdc_assets_tests.fixtures import Workload, of_full_set, workloads
from ticdc_assets_tests.pipeline.changelog.compared import difference
from ticdc_assets_tests.pipeline.ddl_feeds import FedLake
from ticdc_assets_tests.pipeline.gaps import Log, as_read, as_sent, expected
from ticdc_assets_tests.pipeline.stream.conditions import gaps_of

DATED = [w for w in workloads("avro") if "enable-tidb-extension=true" in w.variant["sink_uri"]]
TELLERS = ("open", "simple-avro", "canal-json-tidb", "debezium-tidb", "storage-csv", "storage-canal-json-tidb")


def with_statements(workload: Workload) -> list[Workload]:
    """The other variants of a workload's log, one of each kind that has statements."""
    same = [w for w in workloads(seed=workload.root.name) if w.log == workload.log and not w.name.startswith("avro")]
    kinds = {
        kind: w for w in same for kind in TELLERS if w.name.startswith(f"{kind}-") or w.name.startswith(f"{kind}/")
    }
    return list(kinds.values())


RESTARTED = [w for w in DATED if w.name.startswith("avro-ext-restart")]
PAIRS = [(w, other) for w in DATED for other in with_statements(w)]


def check(lake: FedLake) -> None:
    gaps, log = gaps_of(lake.lake.changefeed), Log(lake.workload)
    assert {gap.id for gap in gaps} == {
        "avro.deleted-row",
        "avro.old-values",
        "avro.watermark",
        "avro.repeats",
        "avro.row",
    }
    wanted = as_sent(expected(lake.workload), gaps, log)
    found = as_read(lake.changes(), wanted, gaps, log)
    assert found == wanted, difference(found, wanted)


@pytest.mark.variants(4)
@pytest.mark.parametrize("workload", DATED, ids=lambda w: w.name)
def test_with_statements_every_change_has_its_true_names_types_and_columns(workload: Workload, tmp_path: Path):
    lake = FedLake(workload, tmp_path)
    lake.run_other()

    report = lake.publish()

    assert report is not None
    assert {r.state for r in report.record.tables} <= {"live", "dropped"}
    check(lake)
    assert lake.publish() is None


@pytest.mark.parametrize(("workload", "other"), of_full_set(PAIRS, 2), ids=lambda w: w.name)
def test_any_changefeed_of_the_same_tables_may_tell_the_statements(workload: Workload, other: Workload, tmp_path: Path):
    lake = FedLake(workload, tmp_path, other)
    lake.run_other()

    lake.publish()

    check(lake)


@pytest.mark.parametrize("workload", of_full_set(RESTARTED), ids=lambda w: w.name)
def test_rows_wait_for_the_statements_before_them(workload: Workload, tmp_path: Path):
    """The other changefeed is behind, by less each time; nothing is read that a later statement may be about."""
    lake = FedLake(workload, tmp_path)
    report = lake.publish()
    assert report is not None
    assert {r.state for r in report.record.tables} == {"waiting"}
    told = ("the statements of changefeed ddl", "run that changefeed first")
    assert all(text in r.note for text in told for r in report.record.tables)
    assert lake.publish() is None

    waited = 0
    for ts in sorted({entry["ts"] for entry in workload.truth}):
        lake.run_other(until=ts)
        report = lake.publish()
        waited += report is not None and any(r.state == "waiting" for r in report.record.tables)
        published = [change.commit_ts for change in lake.changes() if change.commit_ts is not None]
        assert max(published, default=0) <= ts
    lake.run_other()
    lake.publish()

    assert waited
    assert {r.state for r in lake.lake.control.newest().tables} <= {"live", "dropped"}


@pytest.mark.parametrize("workload", of_full_set(RESTARTED), ids=lambda w: w.name)
def test_only_tables_that_are_asked_for_are_recorded_as_waiting(workload: Workload, tmp_path: Path):
    lake = FedLake(workload, tmp_path, tables=["shop.users"])

    report = lake.publish()

    assert report is not None
    assert [(r.table, r.state) for r in report.record.tables] == [("users", "waiting")]
    assert lake.publish() is None


def mirrored() -> Iterator[ParameterSet]:
    for workload in (w for w in DATED if "checksum" not in w.name):
        often = workload.name in ("avro-ext/seed1", "avro-ext-restart/seed2")
        yield pytest.param(workload, id=workload.name, marks=() if often else pytest.mark.matrix)


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize("workload", list(mirrored()))
def test_mirrors_equal_the_truth(workload: Workload, tmp_path: Path):
    """TRUNCATE, DROP, renames, dropped and added columns with their defaults, and exact types included."""
    lake = FedLake(workload, tmp_path)
    lake.run_other()

    report = lake.run()

    assert report is not None
    assert report.errors == {}
    assert lake.differences(max(entry["ts"] for entry in workload.truth)) == []
    assert lake.run() is None
