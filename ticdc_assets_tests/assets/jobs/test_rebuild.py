"""The rebuild job accepts the same options as the command, and fails where the command does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from ticdc_assets import spark
from ticdc_assets.cli import main
from ticdc_assets.tables.control.records import TableRecord
from ticdc_assets_tests.assets.feeds import QUIET, Feed, failures
from ticdc_assets_tests.commands.called import no_dagster_home as no_dagster_home


def shop(folder: Path) -> Feed:
    feed = Feed(folder).table("shop", "users").rows("shop", "users", ("I", 1, "ann", 2))
    return feed.checkpoint(10)


def rebuilt(feed: Feed, **asked: Any) -> dg.ExecuteInProcessResult:
    job = feed.definitions.resolve_job_def("shop_rebuild")
    config = {**QUIET, "ops": {"shop__rebuild": {"config": asked}}}
    return job.execute_in_process(config, raise_on_error=False)


def users(feed: Feed) -> TableRecord:
    [record] = feed.records().values()
    return record


def why(result: dg.ExecuteInProcessResult) -> list[str]:
    return [e.step_failure_data.user_failure_data.description for e in result.all_events if e.is_step_failure]


@pytest.mark.usefixtures("without_java")
@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"tables": ["shop.usres"]}, "table shop.usres: expected a table of this changefeed with a changelog"),
        ({"tables": ["shop.usres"]}, "Did you mean shop.users?"),
        ({"at": "12x", "tables": ["shop.users"]}, "expected a TSO, digits only"),
        ({"at": "12"}, "expected tables to bring to that TSO"),
        ({"day": "tuesday", "from": "source"}, "day: expected a day such as 2026-01-05"),
        ({"day": "2026-01-05"}, "day: expected a rebuild from the source"),
    ],
    ids=str,
)
def test_a_request_that_cannot_be_meant_fails_with_one_sentence(asked: dict[str, Any], said: str, tmp_path: Path):
    feed = shop(tmp_path)
    feed.run()

    [sentence] = why(rebuilt(feed, **asked))

    assert said in sentence


@pytest.mark.long
@pytest.mark.spark
def test_the_job_and_the_command_make_a_mirror_anew(tmp_path: Path, capfd: Any):
    spark.stop()  # another test's session has other settings
    feed = shop(tmp_path)
    assert main(["run", "--config", str(feed.path)]) == 0
    before = users(feed).mirror_snapshot_id
    capfd.readouterr()

    assert main(["rebuild", "--config", str(feed.path), "--table", "shop.users"]) == 0
    first = users(feed)
    assert "shop, shop.users: rebuilt up to" in capfd.readouterr().out
    result = rebuilt(feed, tables=["shop.users"])
    second = users(feed)

    assert failures(result) == []
    [shown] = [e.materialization for e in result.all_events if e.event_type_value == "ASSET_MATERIALIZATION"]
    assert shown.asset_key.path == ["shop", "mirror", "shop", "users"]
    assert (shown.metadata["rebuilt_from"].value, shown.metadata["dagster/row_count"].value) == ("changelog", 1)
    assert shown.metadata["snapshot_id"].value == str(second.mirror_snapshot_id)
    assert len({before, first.mirror_snapshot_id, second.mirror_snapshot_id}) == 3
    assert (first.rows, second.rows) == (1, 1)
    spark.stop()
