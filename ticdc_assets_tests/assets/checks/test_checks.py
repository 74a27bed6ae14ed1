"""Checks fail when they must, say what to do next, and block no more assets than they must."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from ticdc_assets.assets.checks import fold_count
from ticdc_assets.assets.checks import results as verdicts
from ticdc_assets.assets.checks.fold_count import FoldCount, count_fold
from ticdc_assets.assets.clock import Clock
from ticdc_assets.assets.metadata.figures import watermark_metadata
from ticdc_assets.notes import Note, NoteCode
from ticdc_assets.pipeline.quarantine import quarantined_by_table
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.history.source_table import History, NamePeriod, SourceTable
from ticdc_assets.tables.control.records import QuarantinedRecord, TableRecord
from ticdc_assets.tso import now, to_datetime
from ticdc_assets_tests.assets.feeds import QUIET, Feed, checks, failures, ts
from ticdc_assets_tests.fixtures import workloads
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.sources.storage.bucket import ID, NAME

pytestmark = pytest.mark.usefixtures("without_java")

RECORD = TableRecord("s.t@1", "s", "t", "live", (), ["id"], ts(100), ["s", "t"], 1, ["s__changes", "t"], 2, 3)


def at(seconds: float, checkpoint: float) -> Clock:
    return Clock(ts(checkpoint), to_datetime(ts(seconds)).astimezone(UTC))


# -- verdicts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("behind_s", "passed", "warns"),
    [(0, True, False), (300, True, False), (301, False, True), (1800, False, True), (1801, False, False)],
)
def test_lag_warns_above_five_minutes_and_fails_above_thirty(behind_s: int, passed: bool, warns: bool):
    table = verdicts.near_source_checkpoint(replace(RECORD, watermark=ts(0)), at(99_999, behind_s))
    source = verdicts.checkpoint_near_clock(at(behind_s, 0), is_sample=False)

    assert (table.passed, table.warns) == (passed, warns)
    assert (source.passed, source.warns) == (passed, warns)


def test_max_lag_is_the_limit_and_half_of_it_warns():
    limits = verdicts.LagLimits.of(7200)
    found = [
        verdicts.near_source_checkpoint(replace(RECORD, watermark=ts(0)), at(0, s), limits)
        for s in (3600, 3601, 7200, 7201)
    ]

    assert [(v.passed, v.warns) for v in found] == [(True, False), (False, True), (False, True), (False, False)]


def test_a_table_is_held_against_the_source_and_not_against_the_clock():
    assert verdicts.near_source_checkpoint(RECORD, at(9_999_999, 100)).passed


def test_the_sample_that_ended_long_ago_is_not_held_against_the_clock():
    clock = Clock(ts(0), datetime(2040, 1, 1, tzinfo=UTC))

    assert verdicts.checkpoint_near_clock(clock, is_sample=True).passed
    assert not verdicts.checkpoint_near_clock(clock, is_sample=False).passed


@pytest.mark.parametrize(
    ("verdict", "advice"),
    [
        (
            verdicts.near_source_checkpoint(replace(RECORD, watermark=ts(0)), at(0, 5000)),
            "Look for failed or queued runs",
        ),
        (verdicts.checkpoint_near_clock(at(5000, 0), is_sample=False), "cdc cli changefeed query"),
        (
            verdicts.rows_equal(3, FoldCount(4)),
            "`ticdc-assets rebuild` with its --table rebuilds it from",
        ),
        (verdicts.rows_equal(3, FoldCount(4), "shop_rebuild"), "the job shop_rebuild with the table in `tables`."),
        (
            verdicts.not_held(replace(RECORD, state="stopped", notes=(Note(NoteCode.INPUT, "DDL x: mend it."),))),
            "mend it.",
        ),
        (
            verdicts.not_held(replace(RECORD, state="waiting", notes=(Note(NoteCode.INPUT, "no file 3."),))),
            "continues by itself",
        ),
        (
            verdicts.no_table_held(
                [replace(RECORD, state="stopped", notes=(Note(NoteCode.INPUT, "DDL x: mend it."),))]
            ),
            "mend it.",
        ),
        (verdicts.unknown_table_verdict(), "reload the code location"),
        (verdicts.unknown_table_verdict(), "Run the changefeed if the table is new"),
        (verdicts.not_merged_yet(3, FoldCount(4)), "The mirror has 3 rows, and 4 with the changes"),
    ],
)
def test_every_failed_check_says_what_to_do_next(verdict: verdicts.Verdict, advice: str):
    assert not verdict.passed
    assert advice in verdict.sentence


def test_a_count_that_cannot_be_exact_is_reported_as_not_counted():
    verdict = verdicts.rows_equal(3, FoldCount(None, "partitions were removed"))

    assert verdict.passed
    assert verdict.sentence == "Not counted: partitions were removed."
    assert verdict.facts["counted"] is False
    assert verdicts.rows_equal(3, FoldCount(3)).facts["counted"] is True


@pytest.mark.parametrize(
    ("watermark", "names"),
    [(0, set()), (17, {"messages_read"}), (ts(3), {"watermark", "watermark_time"})],
    ids=["none", "count", "commit time"],
)
def test_a_stream_without_watermarks_tells_no_lag_and_calls_no_time_a_count(watermark: int, names: set[str]):
    assert set(watermark_metadata(watermark, replace(at(5, 5), measures_lag=False))) == names


def test_a_lag_is_written_to_the_second_under_the_name_of_what_it_is_behind():
    table = verdicts.near_source_checkpoint(replace(RECORD, watermark=ts(0)), at(999, 400.076))

    assert table.facts["behind_source_seconds"] == 400
    assert "behind_clock_seconds" not in table.facts
    assert verdicts.checkpoint_near_clock(at(400.076, 0), is_sample=False).facts["behind_clock_seconds"] == 400


# -- the fold of a changelog -------------------------------------------------------------------------------------------


def counted(feed: Feed, table: str = "shop.users", watermark: int | None = None) -> FoldCount:
    record = feed.records()[table]
    source_table = feed.lake.history().by_id()[record.source_table]
    changelog = feed.lake.catalog.load_table(tuple(record.changelog or ()))
    return count_fold(source_table, changelog, record.watermark if watermark is None else watermark, False)


def test_a_changelog_folds_to_the_keys_whose_newest_change_is_not_a_delete(tmp_path: Path):
    feed = Feed(tmp_path).table("shop", "users")
    feed.rows("shop", "users", ("I", 1, "a", 2), ("I", 2, "b", 2), ("D", 1, "a", 3), ("D", 2, "b", 4), ("I", 2, "c", 5))
    feed.rows("shop", "users", ("I", 3, "d", 6), ("U", 3, "e", 7)).checkpoint(10).run()

    assert counted(feed) == FoldCount(2)
    assert counted(feed, watermark=ts(4)) == FoldCount(0)


@pytest.mark.parametrize("limit", [{"_FOLD_ROWS": 1}, {"HELD_BYTES_MAX": 400}], ids=str)
def test_a_fold_that_is_made_in_steps_comes_to_the_same(limit: dict[str, int], tmp_path: Path, monkeypatch: Any):
    feed = Feed(tmp_path).table("shop", "users")
    for number in range(6):  # each a data file
        feed.rows("shop", "users", ("I", number, "a", 2 + number)).checkpoint(2.5 + number).run()
    feed.rows("shop", "users", ("D", 1, "a", 20), ("U", 2, "b", 21)).checkpoint(30).run()
    for name, value in limit.items():
        monkeypatch.setattr(fold_count, name, value)

    assert counted(feed) == FoldCount(5)


def test_keys_that_take_too_much_memory_are_not_counted(tmp_path: Path, monkeypatch: Any):
    feed = Feed(tmp_path).table("shop", "users").rows("shop", "users", ("I", 1, "a", 2)).checkpoint(10)
    feed.run()
    monkeypatch.setattr(fold_count, "HELD_BYTES_MAX", 10)

    count = counted(feed)

    assert (count.rows, "keys" in count.reason) == (None, True)


def test_a_fold_begins_at_the_last_truncate(tmp_path: Path):
    feed = Feed(tmp_path).table("shop", "users").rows("shop", "users", ("I", 1, "a", 2), ("I", 2, "b", 3))
    feed.statement("shop", "users", "TRUNCATE TABLE `users`", 4, type_=11)
    feed.rows("shop", "users", ("I", 2, "b", 5)).checkpoint(10).run()

    assert counted(feed) == FoldCount(1)
    assert counted(feed, watermark=ts(3)) == FoldCount(2)


def test_a_stream_without_commit_ts_folds_in_the_order_of_arrival(tmp_path: Path):
    workload = next(w for w in workloads("avro-ext") if w.name == "avro-ext/seed1")  # its deletes carry no commit_ts
    lake = FeedLake(workload, tmp_path)
    lake.publish()

    # The protocol tells no statements, so that the lake cannot know of TRUNCATE.
    emptied = {(e["schema"], e["table"]) for e in workload.events if e.get("type") == "truncate table"}
    wanted = {(t["schema"], t["table"]): len(t["rows"]) for t in workload.truth if t["final"]}
    source_tables = lake.history.by_id()
    found = {}
    for name, record in lake.records().items():
        if name in emptied or name not in wanted:
            continue
        changelog = lake.lake.catalog.load_table(tuple(record.changelog or ()))
        count = count_fold(source_tables[record.source_table], changelog, record.watermark, True)
        found[name] = count.rows

    assert len(found) >= 5
    assert found == {name: wanted[name] for name in found}


def test_an_empty_changelog_folds_to_no_rows(tmp_path: Path):
    feed = Feed(tmp_path).table("shop", "users").checkpoint(10)
    feed.run()

    assert counted(feed) == FoldCount(0)


def test_a_fold_over_a_renamed_key_column_is_exact(tmp_path: Path):
    feed = Feed(tmp_path).table("shop", "users").rows("shop", "users", ("I", 1, "a", 2), ("I", 2, "b", 3))
    columns: list[dict[str, Any]] = [{**ID, "ColumnName": "no"}, NAME]
    feed.statement("shop", "users", "ALTER TABLE `users` RENAME COLUMN `id` TO `no`", 4, columns, type_=5)
    feed.rows("shop", "users", ("D", 2, "b", 5), ("I", 3, "c", 6)).checkpoint(10).run()

    assert counted(feed) == FoldCount(2)


def test_a_changelog_beyond_the_bound_is_not_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    feed = Feed(tmp_path).table("shop", "users").rows("shop", "users", ("I", 1, "a", 2), ("I", 2, "b", 3))
    feed.checkpoint(10).run()

    monkeypatch.setattr(fold_count, "ROWS_MAX", 2)
    assert counted(feed).rows == 2
    monkeypatch.setattr(fold_count, "ROWS_MAX", 1)
    assert counted(feed).rows is None


# -- in Dagster --------------------------------------------------------------------------------------------------------


def two_tables(folder: Path) -> Feed:
    feed = Feed(folder)
    for table in ("good", "bad"):
        feed.table("shop", table).rows("shop", table, ("I", 1, "a", 2))
    return feed.checkpoint(10)


def with_reports(feed: Feed) -> dg.Definitions:
    """The feed with an asset of the user's on each mirror, and a job over all."""

    def report(table: str) -> dg.AssetsDefinition:
        @dg.asset(name=f"report_{table}", deps=[dg.AssetKey(["shop", "mirror", "shop", table])], group_name="reports")
        def body() -> None: ...

        return body

    job = dg.define_asset_job("all", dg.AssetSelection.all(), executor_def=dg.in_process_executor)
    return dg.Definitions.merge(feed.definitions, dg.Definitions(assets=[report("good"), report("bad")], jobs=[job]))


def run_all(feed: Feed) -> dg.ExecuteInProcessResult:
    return with_reports(feed).resolve_job_def("all").execute_in_process(QUIET, raise_on_error=False)


def succeeded(result: dg.ExecuteInProcessResult) -> set[str]:
    return {event.step_key for event in result.all_events if event.is_step_success}


def test_all_checks_pass_for_complete_tables(tmp_path: Path):
    feed = two_tables(tmp_path)
    found = checks(feed.run())

    red = {key for key, check in found.items() if not check.passed}
    assert red == {("shop/watermarks", "checkpoint_near_clock")}  # its checkpoint is of 2025
    facts = {
        name: fact.value for name, fact in found[("shop/mirror/shop/good", "rows_equal_the_changelog")].metadata.items()
    }
    record = feed.records()["shop.good"]
    assert facts == {
        "counted": True,
        "mirror_rows": 1,
        "rows_folded": 1,
        "mirror_snapshot": str(record.mirror_snapshot_id),
        "changelog_snapshot": str(record.changelog_snapshot_id),
    }


def test_late_rows_are_named_once_by_the_run_that_took_them_in(tmp_path: Path):
    feed = two_tables(tmp_path)
    feed.checkpoint(20)
    feed.run()
    feed.rows("shop", "good", ("I", 7, "late", 11))

    result = feed.run()

    check = checks(result)[("shop/watermarks", "no_late_rows")]
    assert not check.passed
    assert check.severity is dg.AssetCheckSeverity.WARN
    assert "shop.good 1. " in (check.description or "")
    metadata_by_asset = {
        event.asset_key.to_user_string(): event.step_materialization_data.materialization.metadata
        for event in result.all_events
        if event.is_step_materialization and event.asset_key
    }
    late = {
        key: metadata["run_late_rows"].value
        for key, metadata in metadata_by_asset.items()
        if "run_late_rows" in metadata
    }
    assert late == {"shop/changelog/shop/good_changes": 1}
    assert checks(feed.run())[("shop/watermarks", "no_late_rows")].passed


def test_a_gap_is_named_once_by_the_first_run_after_it(tmp_path: Path):
    feed = two_tables(tmp_path)
    feed.run()
    control = feed.lake.control
    names = [("", ""), ("shop", "good"), ("shop", "bad")]
    control.keep_ddl_events([DdlEvent(ts(15), *name, "", gap_from=ts(10), where=f"{name}") for name in names])
    newest = control.newest()
    tables = tuple(replace(table, watermark=ts(15)) for table in newest.tables)
    control.record(replace(newest, tso=ts(15), tables=tables, recorded_at=now()))

    found = [checks(feed.checkpoint(at).run())[("shop/watermarks", "no_late_rows")] for at in (20, 30)]

    assert [check.passed for check in found] == [False, True]
    assert f"No changes are known between {ts(10)} and {ts(15)}" in (found[0].description or "")


def test_a_stopped_table_holds_back_what_is_built_on_it_and_nothing_else(tmp_path: Path):
    feed = two_tables(tmp_path)
    feed.run()
    feed.statement("shop", "bad", "ALTER TABLE `bad` FROBNICATE `id`", 11, type_=5)
    feed.rows("shop", "good", ("I", 2, "a", 12)).checkpoint(20)

    result = run_all(feed)

    found = checks(result)
    assert not found[("shop/mirror/shop/bad", "not_held")].passed
    assert not found[("shop/watermarks", "no_table_held")].passed
    assert found[("shop/mirror/shop/good", "not_held")].passed
    assert "report_good" in succeeded(result)
    assert "report_bad" not in succeeded(result)
    assert failures(result) == []
    assert not result.success


def test_a_gap_in_the_files_is_reported_with_its_file(tmp_path: Path):
    feed = two_tables(tmp_path)
    feed.rows("shop", "bad", ("I", 2, "a", 3))
    missing = next(path for path in sorted(feed.bucket.base.rglob("*1.csv")) if "bad" in str(path))
    missing.unlink()

    found = checks(feed.run())

    gap = found[("shop/watermarks", "no_gaps_in_files")]
    assert not gap.passed
    assert missing.name in gap.description
    assert not found[("shop/mirror/shop/bad", "not_held")].passed
    assert found[("shop/mirror/shop/good", "not_held")].passed


def test_what_was_quarantined_turns_the_table_and_the_changefeed_red(tmp_path: Path):
    feed = two_tables(tmp_path)
    feed.rows("shop", "bad", ("I", 2, "ok", 3), ("Q", 3, "secret", 4))

    found = checks(feed.run())

    red = found[("shop/mirror/shop/bad", "nothing_quarantined")]
    assert not red.passed
    assert "lake.ticdc_shop.quarantine" in red.description
    assert "secret" not in red.description
    assert not found[("shop/quarantine", "quarantine_is_empty")].passed
    assert found[("shop/mirror/shop/good", "nothing_quarantined")].passed


def test_a_record_that_was_kept_aside_stays_with_its_table_when_that_is_renamed(tmp_path: Path):
    feed = two_tables(tmp_path)
    feed.rows("shop", "bad", ("Q", 3, "x", 4)).run()
    feed.statement("shop", "worse", "RENAME TABLE `shop`.`bad` TO `shop`.`worse`", 11, type_=14)
    feed.table("shop", "bad", 12).rows("shop", "bad", ("I", 1, "a", 13)).checkpoint(20).run()

    found = checks(feed.run())

    assert not found[("shop/mirror/shop/worse", "nothing_quarantined")].passed
    assert found[("shop/mirror/shop/bad", "nothing_quarantined")].passed


def test_a_quarantined_message_may_be_of_every_table_that_had_its_name_before():
    def table(source_table_id: str, born: float) -> SourceTable:
        return SourceTable(source_table_id, (NamePeriod("shop", "bad", ts(born)),), ())

    record = QuarantinedRecord(to_datetime(ts(100)), "run", "shop", "BAD", "t/0", 7, "x", b"")
    history = History((table("old", 1), table("older", 2), table("later", 100 + 3600)))

    assert set(quarantined_by_table(history, [record])) == {"old", "older"}


def test_a_mirror_with_other_rows_than_its_changelog_is_red_and_stays_red(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    from ticdc_assets.assets.stages import mirrors
    from ticdc_assets_tests.assets.feeds import run_mirrors_without_java

    def one_too_many(lake: Any, *arguments: Any) -> Any:
        report = run_mirrors_without_java(lake, *arguments)
        assert report is not None
        tables = tuple(replace(t, rows=t.rows + 1) if t.table == "bad" else t for t in report.record.tables)
        lake.control.record(replace(report.record, recorded_at=datetime.now(UTC), tables=tables))
        return report

    monkeypatch.setattr(mirrors, "run_mirrors", one_too_many)
    feed, instance = two_tables(tmp_path), dg.DagsterInstance.ephemeral()

    for _ in range(2):
        found = checks(feed.run(instance))
        assert not found[("shop/mirror/shop/bad", "rows_equal_the_changelog")].passed
        assert found[("shop/mirror/shop/good", "rows_equal_the_changelog")].passed


def test_a_row_that_somebody_repeats_in_a_changelog_is_red_and_no_rebuild_from_it_is_advised(tmp_path: Path):
    feed, instance = two_tables(tmp_path), dg.DagsterInstance.ephemeral()
    feed.run(instance)
    table = feed.lake.catalog.load_table(tuple(feed.records()["shop.bad"].changelog or ()))
    before, [file] = table.metadata.current_snapshot_id, [task.file for task in table.scan().plan_files()]
    with table.transaction() as tx, tx.update_snapshot().fast_append() as append:
        append.append_data_file(file)

    found = checks(feed.run(instance))

    red = found[("shop/mirror/shop/bad", "written_by_runs_alone")]
    assert not red.passed
    assert f"set the changelog back to snapshot {before}, the one before; `ticdc-assets rebuild" in red.description
    assert "do not rebuild the mirror from it" in red.description
    assert found[("shop/mirror/shop/good", "written_by_runs_alone")].passed


def test_a_changelog_that_was_set_back_is_red_before_and_after_a_run_has_held_it(tmp_path: Path):
    feed, instance = two_tables(tmp_path), dg.DagsterInstance.ephemeral()
    feed.run(instance)
    name = tuple(feed.records()["shop.bad"].changelog or ())
    older = feed.lake.catalog.load_table(name).metadata_location
    feed.rows("shop", "bad", ("I", 77, "later", 8)).checkpoint(9).run(instance)
    feed.lake.catalog.drop_table(name)
    feed.lake.catalog.register_table(name, older)

    found = checks(feed.run(instance))

    assert not found[("shop/mirror/shop/bad", "written_by_runs_alone")].passed
    assert (
        "rebuild --table shop.bad --from source" in found[("shop/mirror/shop/bad", "written_by_runs_alone")].description
    )
    feed.rows("shop", "bad", ("I", 78, "later", 10)).checkpoint(11)
    held = checks(feed.run(instance))[("shop/mirror/shop/bad", "not_held")]
    assert not held.passed
    assert "it was set back" in held.description


def test_snapshots_that_were_counted_before_are_not_counted_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from ticdc_assets.assets.checks import definitions as module

    feed, instance = two_tables(tmp_path), dg.DagsterInstance.ephemeral()
    feed.run(instance)
    monkeypatch.setattr(module, "count_fold", lambda *arguments: pytest.fail("counted again"))

    result = feed.run(instance)

    assert failures(result) == []
    assert checks(result)[("shop/mirror/shop/good", "rows_equal_the_changelog")].passed


def test_one_check_can_be_run_alone(tmp_path: Path):
    feed = two_tables(tmp_path)
    feed.run()
    key = dg.AssetCheckKey(dg.AssetKey(["shop", "watermarks"]), "no_table_held")
    job = dg.define_asset_job("one", dg.AssetSelection.checks(key))

    resolved = dg.Definitions.merge(feed.definitions, dg.Definitions(jobs=[job])).resolve_job_def("one")
    result = resolved.execute_in_process(QUIET, raise_on_error=False)

    assert failures(result) == []
    assert set(checks(result)) == {("shop/watermarks", "no_table_held")}
