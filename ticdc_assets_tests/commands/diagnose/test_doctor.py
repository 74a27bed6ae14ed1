"""`doctor` tests each requirement of a run separately, and says what to do about a missing one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from ticdc_assets import spark
from ticdc_assets.cli import main
from ticdc_assets_tests.assets.feeds import Feed, ts
from ticdc_assets_tests.commands.called import no_dagster_home as no_dagster_home
from ticdc_assets_tests.commands.called import on, shop
from ticdc_assets_tests.commands.diagnose.local_spark import local_workers as local_workers
from ticdc_assets_tests.commands.plain_user import called_as_plain_user
from ticdc_assets_tests.services.object_store import s3_store

IN_THE_FUTURE_S = 4_000_000_000


def findings(feed: Feed, capfd: Any) -> dict[str, tuple[bool, str]]:
    main(on(feed, "doctor", "--json"))
    return {found["name"]: (found["passed"], found["description"]) for found in json.loads(capfd.readouterr().out)}


def test_a_sound_machine_passes_and_nothing_is_written(tmp_path: Path, local_workers: None, capfd: Any):
    feed = shop(tmp_path)

    assert main(on(feed, "doctor")) == 0

    lines = capfd.readouterr().out.splitlines()
    assert {line.split()[0] for line in lines} == {"ok"}
    assert f"ok   source of shop: it answers, complete up to {ts(10)} (2025-10-09 08:53:30 UTC)." in lines
    assert not (tmp_path / "lake").exists()


def test_a_missing_java_and_a_missing_source_are_both_reported_and_the_rest_is_looked_at(
    tmp_path: Path, capfd: Any, monkeypatch: pytest.MonkeyPatch
):
    feed = shop(tmp_path)
    shutil.rmtree(feed.bucket.base)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))

    assert main(on(feed, "doctor")) == 1

    lines = capfd.readouterr().out.splitlines()
    failed = [line for line in lines if line.startswith("FAIL ")]
    assert [line.partition(":")[0] for line in failed] == ["FAIL Java", "FAIL source of shop", "FAIL Spark"]
    assert "Install a Java runtime 17 or newer" in failed[0]
    assert any(line.startswith("ok   catalog ") for line in lines)
    assert (
        "ok   start of Java: it starts without an archive of classes, which needs Java and a folder for caches."
        in lines
    )


def test_a_lake_that_this_user_cannot_write_is_reported(tmp_path: Path):
    feed = shop(tmp_path)
    lake = tmp_path / "lake"
    lake.mkdir()
    lake.chmod(0o555)

    done = called_as_plain_user(*on(feed, "doctor"), folder=tmp_path, JAVA_HOME="/nowhere")

    assert done.returncode == 1
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAIL ") and "can write" in line]
    assert [line.partition(":")[0] for line in failed] == ["FAIL warehouse", "FAIL catalog lake"]
    assert all(str(lake) in line for line in failed)


@pytest.mark.services
def test_a_warehouse_in_a_bucket_is_listed_and_one_that_is_not_there_is_reported(
    tmp_path: Path, local_workers: None, capfd: Any, monkeypatch: pytest.MonkeyPatch
):
    with s3_store(tmp_path) as store:
        for name, value in store.environment.items():
            monkeypatch.setenv(name, value)
        feed = shop(tmp_path / "feed")
        written = yaml.safe_load(feed.path.read_text())
        found = {}
        for bucket in (store.bucket, "nowhere"):
            lake = {"uri": f"sqlite:///{tmp_path}/{bucket}.db", "warehouse": f"s3://{bucket}/lake"}
            feed.path.write_text(yaml.safe_dump({**written, "catalog": lake, "object_store": store.block}))
            found[bucket] = findings(feed, capfd)["warehouse"]

        assert found == {
            store.bucket: (True, "s3://lake/lake can be listed; whether it can be written, the first run shows."),
            "nowhere": (
                False,
                "the bucket nowhere: expected an answer of the object store, found NO_SUCH_BUCKET. Make the bucket, or "
                "correct catalog.warehouse. Then run again; no partial result is visible.",
            ),
        }
        assert store.files("") == set()


def test_a_clock_that_is_behind_the_source_is_reported(tmp_path: Path, local_workers: None, capfd: Any):
    feed = shop(tmp_path).checkpoint(IN_THE_FUTURE_S)

    passed, sentence = findings(feed, capfd)["source of shop"]

    assert not passed
    assert "Set this machine's clock" in sentence


def test_a_full_disk_is_reported(tmp_path: Path, local_workers: None, capfd: Any, monkeypatch: pytest.MonkeyPatch):
    usage = shutil.disk_usage("/")._replace(free=1 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)

    passed, sentence = findings(shop(tmp_path), capfd)["temporary files"]

    assert not passed
    assert "expected 2,048 MiB of free space, found 1." in sentence


def test_workers_of_another_python_are_reported(
    tmp_path: Path, local_workers: None, capfd: Any, monkeypatch: pytest.MonkeyPatch
):
    from ticdc_assets.commands.diagnose import doctor

    monkeypatch.setattr(doctor, "worker_at", lambda _: doctor.Worker("far", "3.99", "0.0.1"))

    passed, sentence = findings(shop(tmp_path), capfd)["Spark"]

    assert not passed
    assert "worker far: expected Python " in sentence
    assert "found Python 3.99 with 0.0.1. Give workers the same environment" in sentence


@pytest.mark.spark
def test_workers_of_a_real_session_import_this_package(tmp_path: Path, capfd: Any):
    spark.stop()  # another test's session has other settings
    passed, sentence = findings(shop(tmp_path), capfd)["Spark"]

    assert passed, sentence
    assert sentence.endswith("and workers on 1 host import this package.")
