"""Dagster as a user starts it: `dagster dev` on loopback, its web server, daemon and code server in processes of their
own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg

START_TIMEOUT_S = 180
LOCATION = "ticdc_assets.definitions"
_LAUNCH = """mutation($selector: JobOrPipelineSelector!) {
  launchRun(executionParams: {selector: $selector, runConfigData: {}}) {
    __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message }
  }
}"""
_TERMINATE = "mutation($run: String!) { terminateRun(runId: $run) { __typename } }"
_JOBS = """{ repositoriesOrError { __typename
  ... on RepositoryConnection { nodes { name location { name } pipelines { name } } }
} }"""


@dataclass(frozen=True)
class Dagster:
    """A running `dagster dev`, and the instance that it writes its runs to."""

    port: int
    instance: dg.DagsterInstance

    def ask(self, query: str, **variables: Any) -> Any:
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/graphql", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            answer_json = json.load(answer)
        assert "errors" not in answer_json, answer_json
        return answer_json["data"]

    def jobs(self) -> dict[str, str]:
        """The repository of each job."""
        nodes = self.ask(_JOBS)["repositoriesOrError"].get("nodes", [])
        return {job["name"]: node["name"] for node in nodes for job in node["pipelines"]}

    def launch(self, job: str) -> str:
        """Queue a run, which the daemon then starts; its id."""
        selector = {
            "repositoryLocationName": LOCATION, "repositoryName": self.jobs()[job], "pipelineName": job
        }  # fmt: skip
        launched = self.ask(_LAUNCH, selector=selector)["launchRun"]
        assert launched["__typename"] == "LaunchRunSuccess", launched
        return str(launched["run"]["runId"])

    def terminate(self, run_id: str) -> str:
        return str(self.ask(_TERMINATE, run=run_id)["terminateRun"]["__typename"])

    def status(self, run_id: str) -> dg.DagsterRunStatus:
        run = self.instance.get_run_by_id(run_id)
        assert run is not None
        return run.status

    def said(self, run_id: str, text: str) -> bool:
        """Whether a run has logged a text."""
        return any(text in entry.user_message for entry in self.instance.all_logs(run_id))


@contextmanager
def dagster_dev(folder: Path, config: Path) -> Iterator[Dagster]:
    """`dagster dev` with an instance of its own, as `dagster.yaml` of this project has it."""
    home = folder / "dagster_home"
    home.mkdir(parents=True)
    shutil.copy(Path(__file__).parents[2] / "dagster.yaml", home)
    port = _free_port()
    environ = {**os.environ, "DAGSTER_HOME": str(home), "TICDC_ASSETS_CONFIG": str(config)}
    command = [sys.executable, "-m", "dagster", "dev", "-m", LOCATION, "-h", "127.0.0.1", "-p", str(port)]
    with (
        (folder / "dagster.log").open("wb") as log,
        subprocess.Popen(command, env=environ, stdout=log, stderr=log, start_new_session=True) as process,
    ):
        try:
            with dg.DagsterInstance.from_config(str(home)) as instance:
                server = Dagster(port, instance)
                until(lambda: process.poll() is None and _has_jobs(server), START_TIMEOUT_S)
                yield server
        finally:
            _end(process)


def until(holds: Callable[[], bool], seconds: float) -> None:
    """Wait for something, for so long at most."""
    limit = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < limit, "waited too long"
        time.sleep(0.2)


def _has_jobs(server: Dagster) -> bool:
    try:
        return bool(server.jobs())
    except OSError:
        return False


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _end(process: subprocess.Popen[bytes]) -> None:
    """Its processes are a session of their own; runs that are under way end with it."""
    for how, seconds in ((signal.SIGINT, 30), (signal.SIGKILL, 30)):
        try:
            os.killpg(process.pid, how)
            process.wait(seconds)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue
