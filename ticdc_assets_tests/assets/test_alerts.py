"""Alerts: what is sent for failed runs and for checks that change, by the snippet of the documentation."""

from __future__ import annotations

import json
import re
import smtplib
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from ticdc_assets.assets.alerts import FAILED_CHECKS, FAILED_RUNS, alerts
from ticdc_assets.assets.resources import ChangefeedRun
from ticdc_assets.errors import MachineError
from ticdc_assets.tso import to_datetime
from ticdc_assets_tests.assets.feeds import Feed, ts

pytestmark = pytest.mark.usefixtures("without_java")

PAGE = (Path(__file__).parents[2] / "docs" / "dagster.md").read_text()


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.fixture
def webhook() -> Iterator[tuple[str, list[str]]]:
    """A URL on loopback that takes messages as Slack does, and the messages."""
    received: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["text"])
            self.send_response(200)
            self.end_headers()

        def log_message(self, *arguments: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/", received
    server.shutdown()
    server.server_close()


def shop(folder: Path) -> Feed:
    return Feed(folder).table("shop", "users").rows("shop", "users", ("I", 1, "ann", 2)).checkpoint(10)


def evaluated(sensors: dict[str, dg.SensorDefinition], instance: dg.DagsterInstance, run: dg.DagsterRun) -> None:
    """Evaluate the sensors as Dagster does after a run: those of the status with which it ended."""
    events = [entry.dagster_event for entry in instance.all_logs(run.run_id) if entry.dagster_event]
    [ended] = [event for event in events if event.is_run_failure or event.event_type_value == "PIPELINE_SUCCESS"]
    names = [FAILED_RUNS, f"{FAILED_CHECKS}_of_failed_runs"] if ended.is_run_failure else [FAILED_CHECKS]
    for name in names:
        context = dg.build_run_status_sensor_context(
            sensor_name=name, dagster_instance=instance, dagster_run=run, dagster_event=ended
        )
        sensors[name](context)


def after(feed: Feed, instance: dg.DagsterInstance, sent: list[str]) -> list[str]:
    """The alerts of one run."""
    del sent[:]
    result = feed.run(instance)
    run = instance.get_run_by_id(result.run_id)
    assert run is not None
    evaluated({sensor.name: sensor for sensor in alerts(sent.append)}, instance, run)
    return list(sent)


def test_a_check_is_reported_when_it_begins_to_fail_and_when_it_passes_again(
    tmp_path: Path, instance: dg.DagsterInstance
):
    feed, sent = shop(tmp_path), []
    [late] = after(feed, instance, sent)
    feed.statement("shop", "users", "ALTER TABLE `users` FROBNICATE", 11).checkpoint(20)
    [red] = after(feed, instance, sent)
    again = after(feed, instance, sent)
    feed.checkpoint(time.time() - to_datetime(ts(0)).timestamp())
    [lag] = after(feed, instance, sent)

    assert [line.partition(":")[0] for line in late.splitlines()[1:]] == ["ERROR shop/watermarks checkpoint_near_clock"]
    assert {line.partition(":")[0] for line in red.splitlines()[1:]} == {
        "ERROR shop/mirror/shop/users not_held",
        "ERROR shop/watermarks no_table_held",
    }
    assert again == []
    assert "PASSED shop/watermarks checkpoint_near_clock:" in lag
    assert [s.default_status for s in alerts(sent.append)] == [dg.DefaultSensorStatus.STOPPED] * 3


def test_a_failed_run_is_reported_with_its_sentence(
    tmp_path: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
):
    def no_java(self: ChangefeedRun, on_progress: object) -> None:
        raise MachineError("Java", "version 17", "none", "Install it.")

    monkeypatch.setattr(ChangefeedRun, "publish_changelogs", no_java)

    [alert] = after(shop(tmp_path), instance, [])

    assert re.fullmatch(
        r"Run \S+ of shop__run failed in decode_csv: Java: expected version 17, found none. Install it.", alert
    )


def test_a_run_of_the_users_own_job_is_not_reported(instance: dg.DagsterInstance):
    @dg.job
    def other() -> None:
        @dg.op
        def broken() -> None:
            raise ValueError

        broken()

    sent: list[str] = []
    result = other.execute_in_process(instance=instance, raise_on_error=False)
    run = instance.get_run_by_id(result.run_id)
    assert run is not None

    evaluated({sensor.name: sensor for sensor in alerts(sent.append)}, instance, run)

    assert sent == []


def test_the_snippet_of_the_documentation_sends_to_slack_and_by_mail(
    tmp_path: Path,
    instance: dg.DagsterInstance,
    webhook: tuple[str, list[str]],
    monkeypatch: pytest.MonkeyPatch,
):
    url, received = webhook
    mails: list[Any] = []

    class Smtp:
        def __init__(self, host: str, timeout: float) -> None: ...

        def __enter__(self) -> Smtp:
            return self

        def __exit__(self, *arguments: object) -> None: ...

        def send_message(self, message: object) -> None:
            mails.append(message)

    feed = shop(tmp_path).statement("shop", "users", "ALTER TABLE `users` FROBNICATE", 5)
    monkeypatch.setattr(smtplib, "SMTP", Smtp)
    monkeypatch.setenv("SLACK_WEBHOOK", url)
    monkeypatch.setenv("TICDC_ASSETS_CONFIG", str(feed.path))
    monkeypatch.delitem(sys.modules, "ticdc_assets.definitions", raising=False)
    [snippet] = re.findall(r"^### Alerts\n.*?^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    found: dict[str, object] = {"__name__": "snippet"}
    exec(snippet, found)
    defs = found["defs"]
    assert isinstance(defs, dg.Definitions)

    result = feed.run(instance, defs)
    run = instance.get_run_by_id(result.run_id)
    assert run is not None
    evaluated({s.name: s for s in defs.get_repository_def().sensor_defs}, instance, run)

    assert len(received) == len(mails) == 1
    assert "not_held: Stopped" in received[0]
    assert "not_held: Stopped" in mails[0].get_content()
