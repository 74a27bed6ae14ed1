"""Planted credentials and row values: none is in any output.

Looked at are standard output and error, logs of every library, errors with all their causes, what prints a config, what
Dagster keeps of runs, the metadata of assets, and every byte of the lake.
"""

from __future__ import annotations

import json
from pathlib import Path
from pprint import pformat
from typing import Any

import dagster as dg
import pytest
import yaml

from ticdc_assets.assets.graph import definitions_of
from ticdc_assets.cli import main
from ticdc_assets.errors import ConfigError, SourceError
from ticdc_assets_tests.assets.feeds import Feed, event_texts, without_java
from ticdc_assets_tests.canaries import (
    CANARY,
    ENVIRON,
    ROW_CANARY,
    assert_discreet,
    files_with,
    planted,
    with_causes,
)
from ticdc_assets_tests.canaries import feed as feed
from ticdc_assets_tests.canaries import instance as instance
from ticdc_assets_tests.canaries import logs as logs
from ticdc_assets_tests.canaries import no_retries as no_retries

__all__ = ["without_java"]


# -- what prints a config ---------------------------------------------------------------------------------------------


def test_the_config_of_these_tests_holds_thirteen_secrets(feed: Feed):
    written = feed.path.read_text() + json.dumps(ENVIRON)

    assert all(planted(number) in written for number in range(1, 14))


def test_a_config_and_what_is_made_of_it_print_no_secret(feed: Feed):
    config = feed.config
    shop = config.changefeed("shop")

    assert_discreet(shop.warnings)
    for thing in (config, config.catalog, config.spark, shop, shop.sink, shop.source, feed.lake):
        assert_discreet(repr(thing), str(thing), pformat(thing), [thing])
    assert config.catalog.properties["adls.sas-token"] == ENVIRON["SAS"]  # it is there, and not shown
    assert config.spark.conf["spark.ssl.keyPassword"] == ENVIRON["KEY"]


BREAKS = {
    "a key that nobody knows": lambda document, feed: feed.update(sink_url=feed["sink_uri"]),
    "a list for a URI": lambda document, feed: feed.update(sink_uri=[feed["sink_uri"]]),
    "a mapping for a URI": lambda document, feed: feed.update(claim_check={"url": feed["claim_check"]}),
    "an unescaped slash": lambda document, feed: feed.update(sink_uri=f"kafka://u:a/{planted(1)}@h:9092/t"),
    "an upstream that is no mapping": lambda document, feed: feed.update(upstream=f"u:{planted(13)}@tidb:4000"),
    "an upstream with a password for a port": lambda document, feed: feed["upstream"].update(port=planted(13)),
    "a registry of no scheme": lambda document, feed: feed["schema_registry"].update(url=f"ftp://u:{planted(7)}@r"),
    "a list of properties": lambda document, feed: document["catalog"].update(properties=[planted(9)]),
    "a nested property": lambda document, feed: document["catalog"]["properties"].update(token={"value": planted(9)}),
    "two names of one variable": lambda document, feed: document["spark"]["conf"].update(
        x={"env": "SAS", "or": planted(10)}
    ),
    "a remote that is none": lambda document, feed: document["spark"].update(remote=f"http://u:{planted(10)}@h"),
    "a variable that is not set": lambda document, feed: document["spark"]["conf"].update(x={"env": "NOT_SET"}),
}


@pytest.mark.parametrize("what", BREAKS)
def test_a_fault_in_a_config_is_reported_without_its_secrets(feed: Feed, what: str, capfd: Any):
    document = yaml.safe_load(feed.path.read_text())
    BREAKS[what](document, document["changefeeds"]["shop"])
    feed.path.write_text(yaml.safe_dump(document))

    with pytest.raises(ConfigError) as caught:
        _ = feed.config

    assert_discreet(*with_causes(caught.value))
    assert main(["tables", "--config", str(feed.path)]) == 2
    assert_discreet(*capfd.readouterr())


@pytest.mark.parametrize("damage", ["}", "\t- x", ": :", '"', "\0", "&x *y", "<<: 1"])
def test_text_that_is_no_yaml_is_reported_without_its_secrets(feed: Feed, damage: str):
    feed.path.write_text(feed.path.read_text().replace(planted(9), f"{planted(9)}{damage}\n{damage}"))

    with pytest.raises(ConfigError) as caught:
        _ = feed.config

    assert_discreet(*with_causes(caught.value))


# -- runs -------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("without_java")
def test_a_good_run_leaves_no_secret_in_logs_events_or_the_lake(
    feed: Feed, tmp_path: Path, instance: dg.DagsterInstance, logs: pytest.LogCaptureFixture, capfd: Any
):
    result = feed.run(instance)

    assert result.success
    assert_discreet(event_texts(result), logs.text, *capfd.readouterr())
    assert files_with(CANARY, tmp_path, feed.path) == []
    in_tables = files_with(ROW_CANARY, tmp_path, *feed.bucket.base.rglob("*"))
    assert in_tables
    assert all(path.suffix == ".parquet" for path in in_tables)

    FAILURES["a record that no schema fits"](feed.checkpoint(9))
    FAILURES["a statement that nobody knows"](feed)
    assert_discreet(event_texts(feed.run(instance)))
    assert files_with(ROW_CANARY, tmp_path / "dagster") == files_with(CANARY, tmp_path / "dagster") == []


@pytest.mark.usefixtures("without_java")
@pytest.mark.parametrize("command", [["run"], ["tables"], ["tables", "--json"], ["snapshot", "--at", "1"]])
def test_no_command_prints_a_secret(feed: Feed, command: list[str], capfd: Any, logs: pytest.LogCaptureFixture):
    main([*command, "--config", str(feed.path)])

    assert_discreet(logs.text, *capfd.readouterr())
    log = feed.folder / ".ticdc_assets" / "run.log"
    assert_discreet(log.read_text() if log.exists() else "")


def test_definitions_hold_no_secret_in_their_metadata(feed: Feed, logs: pytest.LogCaptureFixture, capfd: Any):
    definitions = definitions_of(feed.config)
    graph = definitions.resolve_asset_graph()
    texts = [f"{node.metadata} {node.tags} {node.description}" for node in map(graph.get, graph.get_all_asset_keys())]
    jobs = [job.name for job in definitions.resolve_all_job_defs()]

    assert texts
    assert "shop__run" in jobs
    assert_discreet(*texts, *map(repr, texts), repr(definitions), logs.text, *capfd.readouterr())


FAILURES = {
    "a record that no schema fits": lambda feed: feed.rows("shop", "users", ("X", 3, ROW_CANARY, 4)),
    "a statement that nobody knows": lambda feed: feed.statement(
        "shop", "users", f"ALTER TABLE `users` FROBNICATE '{ROW_CANARY}'", 4, type_=5
    ),
    "a file that is gone": lambda feed: next(feed.bucket.base.rglob("CDC*.csv")).unlink(),
    "a file that is cut": lambda feed: (path := next(feed.bucket.base.rglob("CDC*.csv"))).write_bytes(
        path.read_bytes()[:-15]
    ),
    "metadata that is no JSON": lambda feed: feed.bucket.write("metadata", f'{{"checkpoint-ts": {ROW_CANARY}'.encode()),
    "a bucket that is gone": lambda feed: feed.bucket.base.rename(feed.folder / "elsewhere"),
}


@pytest.mark.usefixtures("without_java", "no_retries")
@pytest.mark.parametrize("what", FAILURES)
def test_a_run_that_goes_wrong_tells_no_secret_and_no_row(
    feed: Feed, tmp_path: Path, what: str, logs: pytest.LogCaptureFixture, capfd: Any
):
    FAILURES[what](feed)

    result = feed.run()

    assert not result.success or feed.records()["shop.users"].state != "live"
    assert_discreet(event_texts(result), logs.text, *capfd.readouterr())
    assert files_with(CANARY, tmp_path, feed.path) == []


CATALOGS = {
    "a database without its driver": {"type": "sql", "uri": f"nosuchdatabase://u:{planted(9)}@127.0.0.1:9/db"},
    "a port that is no number": {"type": "sql", "uri": f"postgresql://u:{planted(9)}@127.0.0.1:{planted(10)}/db"},
    "a service that is not there": {
        "type": "rest",
        "uri": f"http://u:{planted(9)}@127.0.0.1:9/x?token={planted(10)}",
        "warehouse": "w",
        "properties": {"token": planted(11), "credential": f"id:{planted(12)}"},
    },
}


@pytest.mark.usefixtures("without_java", "no_retries")
@pytest.mark.parametrize("what", CATALOGS)
def test_a_catalog_that_cannot_be_opened_is_reported_without_its_secrets(
    feed: Feed, tmp_path: Path, what: str, logs: pytest.LogCaptureFixture, capfd: Any
):
    document = yaml.safe_load(feed.path.read_text())
    feed.path.write_text(yaml.safe_dump({**document, "catalog": CATALOGS[what]}))

    with pytest.raises(SourceError) as caught:
        feed.lake.catalog.list_namespaces()
    result = feed.run()

    assert not result.success
    assert main(["tables", "--config", str(feed.path)]) == 1
    assert_discreet(event_texts(result), *with_causes(caught.value), logs.text, *capfd.readouterr())
    assert files_with(CANARY, tmp_path, feed.path) == []


@pytest.mark.usefixtures("without_java", "no_retries")
def test_a_bucket_that_cannot_be_reached_is_reported_without_its_secrets(
    feed: Feed, logs: pytest.LogCaptureFixture, capfd: Any
):
    document = yaml.safe_load(feed.path.read_text())
    place = f"s3://bucket/prefix?endpoint=http://127.0.0.1:9&access-key=AKIA&secret-access-key={planted(2)}"
    document["changefeeds"]["shop"]["source"] = {"storage": place, "options": {"session-token": planted(3)}}
    feed.path.write_text(yaml.safe_dump(document))

    result = feed.run()

    assert not result.success
    assert_discreet(event_texts(result), logs.text, *capfd.readouterr())
