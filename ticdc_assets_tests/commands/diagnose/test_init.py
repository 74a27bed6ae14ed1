"""`init` writes a config that passes for a bucket and for a topic, and changes no file that is there."""

from __future__ import annotations

from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
import yaml

from ticdc_assets.cli import main
from ticdc_assets.config import PACKAGED_SAMPLE, load
from ticdc_assets_tests.assets.feeds import without_java as without_java
from ticdc_assets_tests.commands.called import no_dagster_home as no_dagster_home
from ticdc_assets_tests.commands.called import shop
from ticdc_assets_tests.commands.diagnose.local_spark import local_workers as local_workers
from ticdc_assets_tests.fixtures import read_jsonl
from ticdc_assets_tests.services.kafka import KafkaServer

pytestmark = pytest.mark.usefixtures("local_workers")


@pytest.fixture
def new(tmp_path: Path) -> Path:
    return tmp_path / "new.yaml"


def init(new: Path, *arguments: str) -> int:
    return main(["init", *arguments, "--config", str(new)])


def keys(new: Path) -> dict[str, Any]:
    [feed] = yaml.safe_load(new.read_text())["changefeeds"].values()
    return feed


@pytest.mark.usefixtures("without_java")
def test_a_bucket_gets_a_config_with_which_a_run_reads_it(tmp_path: Path, new: Path, capfd: Any):
    bucket = shop(tmp_path / "feed").bucket.base

    assert init(new, f"file://{bucket}?protocol=csv", "--name", "shop", "--time-zone", "Asia/Shanghai") == 0

    printed = capfd.readouterr().out
    assert "shop: its configuration has what its source shows." in printed
    assert "FAIL" not in printed
    first, *others = new.read_text().splitlines()
    assert first.startswith("# yaml-language-server: $schema=")
    assert "    # the zone in which TiCDC writes TIMESTAMP" in others
    assert keys(new)["sink_uri"] == f"file://{bucket}?protocol=csv"
    assert keys(new)["config"]["sink"]["csv"]["include-commit-ts"] is True
    assert load(new, {}).changefeed("shop").time_zone == "Asia/Shanghai"
    assert main(["run", "--config", str(new)]) == 0
    assert "shop: 3 changes of 1 table, complete up to" in capfd.readouterr().out


def test_a_path_and_the_file_given_to_cdc_are_enough(tmp_path: Path, new: Path, capfd: Any):
    bucket, toml = shop(tmp_path / "feed").bucket.base, tmp_path / "changefeed.toml"
    toml.write_text('[sink]\ndate-separator = "none"\n[sink.csv]\ninclude-commit-ts = false\n')

    assert init(new, str(bucket), "--config-file", str(toml)) == 1

    assert keys(new)["config_file"] == str(toml)
    assert "Set `sink.csv.include-commit-ts = true`" in capfd.readouterr().out


@pytest.mark.services
def test_a_topic_gets_a_config_that_passes(new: Path, kafka: KafkaServer, topic: str, capfd: Any):
    lines = [
        {**line, "topic": topic, **{name: line[name] and b64decode(line[name]) for name in ("key", "value")}}
        for line in read_jsonl(PACKAGED_SAMPLE / "canal_json" / "messages.jsonl")
    ]
    kafka.make_topic(topic, max(line["partition"] for line in lines) + 1)
    kafka.send(lines)
    uri = f"kafka://{kafka.brokers}/{topic}?protocol=canal-json&kafka-version=2.4.0"

    assert init(new, uri, "--name", "shop") == 0

    assert keys(new)["sink_uri"] == f"{uri}&enable-tidb-extension=true"
    assert "ok   source of shop: it answers" in capfd.readouterr().out


def test_a_uri_with_a_password_makes_a_private_file_and_is_not_printed(tmp_path: Path, new: Path, capfd: Any):
    bucket = shop(tmp_path / "feed").bucket.base

    assert init(new, f"file://{bucket}?protocol=csv&secret-access-key=hunter2") == 0

    assert new.stat().st_mode & 0o777 == 0o600
    assert "hunter2" in new.read_text()
    assert "hunter2" not in "".join(capfd.readouterr())


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ([], "SINK_URI: expected a value, found none. Write it after the command."),
        (["{bucket}", "--name", "no name"], "no name"),
        (["/nowhere"], "/nowhere: expected a file or folder"),
    ],
    ids=["no URI", "a wrong name", "no such place"],
)
def test_what_cannot_be_written_is_refused_and_leaves_no_file(
    tmp_path: Path, new: Path, capfd: Any, arguments: list[str], found: str
):
    bucket = shop(tmp_path / "feed").bucket.base

    assert init(new, *(argument.format(bucket=bucket) for argument in arguments)) in (1, 2)

    assert found in capfd.readouterr().err
    assert not new.exists()


def test_a_config_that_is_there_stays_as_it_is(tmp_path: Path, new: Path, capfd: Any):
    new.write_text("mine")

    assert init(new, str(shop(tmp_path / "feed").bucket.base)) == 2

    assert new.read_text() == "mine"
    assert "expected a file that does not exist" in capfd.readouterr().err
