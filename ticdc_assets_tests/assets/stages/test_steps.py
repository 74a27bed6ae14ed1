"""What a run does in Dagster: unusual names, runs with nothing new, new tables, and the metadata."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from ticdc_assets.assets.graph import definitions_of
from ticdc_assets.assets.resources import ChangefeedRun
from ticdc_assets.assets.stages import mirrors as mirrors_module
from ticdc_assets.errors import MachineError, StaleRunError
from ticdc_assets.pipeline.run import mirrors as mirror_run
from ticdc_assets.pipeline.run.mirrors import MirrorReport
from ticdc_assets_tests.assets.feeds import (
    QUIET,
    Feed,
    event_texts,
    failures,
    materializations,
    ts,
)
from ticdc_assets_tests.fixtures import workloads
from ticdc_assets_tests.pipeline.lakes import config_of
from ticdc_assets_tests.sources.storage.bucket import ID, NAME

pytestmark = pytest.mark.usefixtures("without_java")

UNUSUAL_NAMES = [
    "odd-names",
    "odd_names",
    "odd names",
    "a.b",
    "select",
    "x__y",
    "_x",
    "表",
    "Ünïcode",
    'quo"te',
    "q`t",
    "100%",
]


def shop(folder: Path, **settings: object) -> Feed:
    feed = Feed(folder, **settings)
    feed.table("shop", "users").rows("shop", "users", ("I", 1, "ann", 2), ("I", 2, "bob", 3), ("U", 1, "eve", 4))
    return feed.table("shop", "empty").checkpoint(10)


def test_tables_of_any_name_run_side_by_side(tmp_path: Path):
    feed = Feed(tmp_path)
    for number, name in enumerate(UNUSUAL_NAMES, start=1):
        rows = [("I", key, "x", 2 + key / 100) for key in range(number)]
        feed.table("my-db", name).rows("my-db", name, *rows)
    feed.checkpoint(10)

    result = feed.run()

    materialized = materializations(result)
    by_table = {m["source_table"]: m for key, m in materialized.items() if "/mirror/" in key}
    assert failures(result) == []
    assert result.success
    assert {name: by_table[f"my-db.{name}"]["dagster/row_count"] for name in UNUSUAL_NAMES} == {
        name: number for number, name in enumerate(UNUSUAL_NAMES, start=1)
    }


def test_the_first_step_warns_of_what_looks_wrong_in_the_changefeeds_configuration(tmp_path: Path):
    csv = {"include-commit-ts": True, "include-comit-ts": False}
    feed = shop(tmp_path, config={"sink": {"date-separator": "none", "csv": csv}})

    with dg.DagsterInstance.ephemeral() as instance:
        result = feed.run(instance)
        logged = [entry.user_message for entry in instance.all_logs(result.run_id) if entry.level == logging.WARNING]

    assert result.success
    assert [text for text in logged if "did you mean sink.csv.include-commit-ts?" in text]


def test_two_changefeeds_of_one_protocol_run_side_by_side(tmp_path: Path):
    first = shop(tmp_path)
    second = Feed(tmp_path, "copy", target={"mirror": "c_{schema}.{table}", "changelog": "c_{schema}__changes.{table}"})
    second.table("shop", "users").rows("shop", "users", ("I", 7, "x", 2)).checkpoint(5)
    both = dg.define_asset_job("both", dg.AssetSelection.groups("shop", "copy"), executor_def=dg.in_process_executor)

    job = dg.Definitions.merge(first.definitions, dg.Definitions(jobs=[both])).resolve_job_def("both")
    result = job.execute_in_process(QUIET, raise_on_error=False)

    assert failures(result) == []
    assert {"shop__decode_csv", "copy__decode_csv", "shop__mirrors", "copy__mirrors"} <= {n.name for n in job.nodes}
    assert materializations(result)["copy/mirror/shop/users"]["dagster/row_count"] == 1
    assert materializations(result)["shop/mirror/shop/users"]["dagster/row_count"] == 2


def test_a_materialisation_tells_rows_watermark_and_shape(tmp_path: Path):
    materialized = materializations(shop(tmp_path).run())

    changelog, mirror = materialized["shop/changelog/shop/users_changes"], materialized["shop/mirror/shop/users"]
    assert [changelog[f"run_rows_{what}"] for what in ("inserted", "updated", "deleted")] == [2, 1, 0]
    assert changelog["watermark"] == mirror["watermark"] == str(ts(10))
    assert changelog["behind_source_seconds"] == 0
    assert changelog["behind_clock_seconds"] == int(changelog["behind_clock_seconds"]) > 0
    assert columns(mirror) == [
        ("id", "int", "required"),
        ("name", "string", ""),
        ("_ticdc_commit_ts", "long", ""),
    ]
    assert mirror["dagster/table_name"] == "lake.shop.users"
    source_table = mirror["dagster/column_lineage"].deps_by_column["name"]
    assert [(d.asset_key.to_user_string(), d.column_name) for d in source_table] == [
        ("shop/changelog/shop/users_changes", "name")
    ]
    assert mirror["recent"].startswith("![2 rows")


def test_assets_have_the_comments_the_key_and_the_statements_of_the_source(tmp_path: Path):
    create = "CREATE TABLE `users` (`id` INT NOT NULL COMMENT 'the number', `name` VARCHAR(200), PRIMARY KEY (`id`))"
    feed = Feed(tmp_path).statement("shop", "users", f"{create} COMMENT='who buys'", 1)
    feed.rows("shop", "users", ("I", 1, "ann", 2), ("U", 1, "eve", 3))
    feed.statement("shop", "users", "ALTER TABLE `users` MODIFY `name` VARCHAR(200) COMMENT 'in full'", 5).checkpoint(9)

    materialized = materializations(feed.run())

    changelog, mirror = materialized["shop/changelog/shop/users_changes"], materialized["shop/mirror/shop/users"]
    described = {c.name: c.description for c in changelog["dagster/column_schema"].columns}
    assert {c.name: c.description for c in mirror["dagster/column_schema"].columns}["id"] == "INT. the number"
    assert (described["id"], described["name"]) == ("INT. the number", "VARCHAR(200). in full")
    assert all(described[name] for name in described if name.startswith("_ticdc_"))
    assert (changelog["comment"], changelog["key"], changelog["dagster/row_count"]) == ("who buys", "id", 2)
    assert mirror["dagster/column_schema"].constraints.other == ["key: id"]
    assert changelog["statements"].index("MODIFY") < changelog["statements"].index("CREATE TABLE")
    lineage = changelog["dagster/column_lineage"].deps_by_column
    assert [(d.asset_key.to_user_string(), d.column_name) for d in lineage["name"]] == [
        ("shop/source", "shop.users.name")
    ]


def test_what_a_run_found_in_one_table_is_shown_on_this_table_only(tmp_path: Path):
    feed = shop(tmp_path).table("shop", "orders").rows("shop", "orders", ("I", 1, "x", 2))
    feed.rows("shop", "orders", ("I", 1, "x", 2), ("I", 2, "y", 3))

    materialized = materializations(feed.run())

    assert materialized["shop/changelog/shop/orders_changes"]["run_repeats_removed"] == 1
    assert "run_repeats_removed" not in materialized["shop/changelog/shop/users_changes"]


def columns(metadata: dict[str, Any]) -> list[tuple[str, str, str]]:
    """The columns that a materialisation shows: name, type and whether it is required."""
    shown = metadata["dagster/column_schema"].columns
    return [(c.name, c.type, "" if c.constraints.nullable else "required") for c in shown]


def test_a_run_with_nothing_new_also_reports_the_columns_in_the_order_of_the_changelog(tmp_path: Path):
    feed = Feed(tmp_path).table("shop", "users").rows("shop", "users", ("I", 1, "ann", 2)).checkpoint(10)
    feed.run()
    age = {"ColumnName": "age", "ColumnType": "INT", "ColumnNullable": "false", "ColumnDefault": "0"}
    feed.statement("shop", "users", "ALTER TABLE `users` ADD COLUMN `age` INT NOT NULL FIRST", 11, [age, ID, NAME])
    feed.statement("shop", "users", "ALTER TABLE `users` DROP COLUMN `name`", 12, [age, ID]).checkpoint(20)

    materialized = [materializations(feed.run())["shop/changelog/shop/users_changes"] for _ in range(2)]

    assert columns(materialized[0]) == columns(materialized[1])
    assert columns(materialized[0]) == [
        ("_ticdc_op", "string", ""),
        ("_ticdc_commit_ts", "long", ""),
        ("_ticdc_commit_time", "timestamptz", ""),
        ("_ticdc_seq", "long", ""),
        ("_ticdc_table_version", "long", ""),
        ("_ticdc_before", "struct<id: int, name: string, age: int>", ""),
        ("id", "int", ""),
        ("name", "string", ""),
        ("age", "int", ""),
    ]
    assert [f.name for f in feed.lake.catalog.load_table(("shop__changes", "users")).schema().fields] == [
        name for name, _, _ in columns(materialized[0])
    ]


def test_no_columns_are_reported_for_a_table_that_does_not_exist_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(mirrors_module, "run_mirrors", lambda lake, *_: MirrorReport(lake.control.newest()))

    materialized = materializations(shop(tmp_path).run())

    assert "dagster/column_schema" in materialized["shop/changelog/shop/users_changes"]
    assert "dagster/column_schema" not in materialized["shop/mirror/shop/users"]


def test_progress_counts_the_mirrors_that_it_merges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    feed = Feed(tmp_path).table("shop", "users").rows("shop", "users", ("I", 1, "ann", 2)).checkpoint(10)
    feed.run()
    monkeypatch.setattr(mirror_run, "_bring_up", lambda *arguments: None)
    said: list[str] = []

    mirror_run.run_mirrors(feed.lake, "run", lambda: None, said.append)  # type: ignore[arg-type, return-value]

    assert said == ["merging 1 mirror"]


def test_no_row_value_reaches_the_events_of_a_run(tmp_path: Path):
    feed = Feed(tmp_path).table("shop", "users")
    feed.rows("shop", "users", ("I", 918273645, "very-secret", 2), ("X", 918273646, "very-secret", 3)).checkpoint(10)

    texts = event_texts(feed.run())

    assert "shop/users" in texts
    assert "very-secret" not in texts
    assert "918273645" not in texts


def test_a_run_with_nothing_new_makes_no_snapshot_and_asks_for_no_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    feed = shop(tmp_path)
    feed.run()
    before = feed.snapshots()
    monkeypatch.setattr(ChangefeedRun, "workers", lambda self: pytest.fail("workers were asked for"))
    monkeypatch.setattr(ChangefeedRun, "jvm", lambda self: pytest.fail("a JVM was asked for"))

    result = feed.run()

    assert result.success
    assert feed.snapshots() == before
    assert materializations(result)["shop/changelog/shop/users_changes"]["run_rows_inserted"] == 0
    assert materializations(result)["shop/changelog/shop/users_changes"]["watermark"] == str(ts(10))


def test_a_source_without_a_checkpoint_yet_is_no_failure(tmp_path: Path):
    feed = shop(tmp_path)
    feed.bucket.remove("metadata")

    result = feed.run()

    assert failures(result) == []
    assert feed.records() == {}


def test_a_table_without_assets_is_processed_and_gets_them_when_definitions_load_again(tmp_path: Path):
    feed = shop(tmp_path)
    loaded_before = feed.definitions
    feed.table("shop", "late", 11).rows("shop", "late", ("I", 1, "x", 12)).checkpoint(20)

    result = feed.run(definitions=loaded_before)

    assert result.success
    assert materializations(result)["shop/changelog/shop/late_changes"]["run_rows_inserted"] == 1
    assert materializations(result)["shop/mirror/shop/late"]["dagster/row_count"] == 1
    assert (
        dg.AssetKey(["shop", "mirror", "shop", "late"]) in feed.definitions.resolve_asset_graph().get_all_asset_keys()
    )


def test_a_table_that_was_renamed_since_loading_holds_up_nothing(tmp_path: Path):
    feed = shop(tmp_path)
    loaded_before = feed.definitions
    feed.statement("shop", "people", "RENAME TABLE `shop`.`users` TO `shop`.`people`", 11, type_=14)
    feed.rows("shop", "people", ("I", 3, "x", 12)).checkpoint(20)

    result = feed.run(definitions=loaded_before)

    materialized = materializations(result)
    assert failures(result) == []
    assert materialized["shop/mirror/shop/people"]["dagster/row_count"] == 3
    assert materialized["shop/changelog/shop/users_changes"]["state"] == "unknown"


def test_a_table_without_a_key_has_a_changelog_and_no_mirror(tmp_path: Path):
    feed = Feed(tmp_path).table("shop", "log", keyless=True).rows("shop", "log", ("I", 1, "x", 2)).checkpoint(10)

    feed.run()
    keys = {key.to_user_string() for key in feed.definitions.resolve_asset_graph().get_all_asset_keys()}

    assert "shop/changelog/shop/log_changes" in keys
    assert "shop/mirror/shop/log" not in keys
    assert feed.run().success


def test_a_run_in_dagster_ends_at_the_tso_of_until(tmp_path: Path):
    feed = shop(tmp_path)
    resources = {"resources": {"shop_lake": {"config": {"until": str(ts(3))}}}}
    job = feed.definitions.resolve_job_def("shop__run")

    result = job.execute_in_process({**QUIET, **resources}, raise_on_error=False)

    materialized = materializations(result)["shop/mirror/shop/users"]
    assert (materialized["dagster/row_count"], materialized["watermark"]) == (2, str(ts(3)))
    assert materialized["behind_source_seconds"] == 7


def test_one_mirror_can_be_run_alone(tmp_path: Path):
    feed = shop(tmp_path)
    feed.run()
    alone = dg.define_asset_job("alone", dg.AssetSelection.assets(["shop", "mirror", "shop", "users"]))

    job = dg.Definitions.merge(feed.definitions, dg.Definitions(jobs=[alone])).resolve_job_def("alone")
    result = job.execute_in_process(QUIET, raise_on_error=False)

    assert failures(result) == []
    assert set(materializations(result)) == {"shop/mirror/shop/users"}


def test_dagster_knows_the_source_by_its_watermark_as_data_version(tmp_path: Path):
    instance = dg.DagsterInstance.ephemeral()
    shop(tmp_path).run(instance)

    record = instance.fetch_materializations(dg.AssetKey(["shop", "source"]), limit=1).records[0]

    assert record.asset_materialization.tags["dagster/data_version"] == str(ts(10))


def test_a_fault_is_reported_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def no_java(self: ChangefeedRun, on_progress: object) -> None:
        raise MachineError("Java", "version 17", "none", "Install it.")

    monkeypatch.setattr(ChangefeedRun, "publish_changelogs", no_java)
    result = shop(tmp_path).run()

    failed = [event.step_failure_data for event in result.all_events if event.is_step_failure]
    assert [f.user_failure_data.description for f in failed] == ["Java: expected version 17, found none. Install it."]


def test_a_run_that_was_overtaken_looks_again_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    publish, tries = ChangefeedRun.publish_changelogs, []

    def overtaken_once(self: ChangefeedRun, on_progress: object) -> object:
        tries.append(self.outcome.pending.run_id)
        if len(tries) == 1:
            raise StaleRunError("x", "a", "b", "Run again.")
        return publish(self, on_progress)

    monkeypatch.setattr(ChangefeedRun, "publish_changelogs", overtaken_once)
    result = shop(tmp_path).run()

    assert result.success
    assert len(set(tries)) == 2
    assert materializations(result)["shop/mirror/shop/users"]["dagster/row_count"] == 2


@pytest.mark.parametrize("variant", ["canal-json-tidb", "open", "simple-json", "avro-ext"])
def test_captured_messages_run_through_the_same_steps(tmp_path: Path, variant: str):
    workload = next(w for w in workloads(variant) if w.name == f"{variant}/seed1")
    config = config_of(workload, tmp_path, workload.root / "messages.jsonl")
    first = definitions_of(config).resolve_job_def("feed__run").execute_in_process(QUIET, raise_on_error=False)

    result = definitions_of(config).resolve_job_def("feed__run").execute_in_process(QUIET, raise_on_error=False)

    op = f"decode_{workload.variant['sink_uri'].partition('protocol=')[2].partition('&')[0].replace('-', '_')}"
    before, after = materializations(first), materializations(result)
    assert failures(first) == failures(result) == []
    assert op in {event.step_key for event in result.all_events}
    assert before["feed/changelog/shop/users_changes"]["run_rows_inserted"] > 0
    assert after["feed/changelog/shop/users_changes"]["run_rows_inserted"] == 0
    assert after["feed/mirror/shop/users"]["source_table"] == "shop.users"
