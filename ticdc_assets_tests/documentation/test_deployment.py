"""The files of `deploy/`: they are valid, their commands are accepted, and the metrics that they name exist."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from dagster._cli import create_dagster_cli
from dagster._core.instance.config import dagster_instance_config
from dagster._core.utils import make_new_run_id
from dagster._daemon.cli import create_dagster_daemon_cli
from dagster_webserver.cli import create_dagster_webserver_cli

from ticdc_assets.command_line import entry
from ticdc_assets.commands.process.follow.report import FAMILIES
from ticdc_assets_tests.documentation.pages import REPOSITORY
from ticdc_assets_tests.services.postgresql import PASSWORD, USER, missing, postgresql

DEPLOY = REPOSITORY / "deploy"
UNIT = DEPLOY / "ticdc-assets-follow.service"


def read(name: str) -> str:
    return (DEPLOY / name).read_text(encoding="utf-8")


def loaded(name: str) -> Any:
    return yaml.safe_load(read(name))


# -- commands ----------------------------------------------------------------------------------------------------------


def commands() -> Iterator[list[str]]:
    """Every call of a command of this environment."""
    file = read("Containerfile").replace("\\\n", " ")
    for words in re.findall(r"CMD (\[.+\])", file):
        yield json.loads(words)
    for line in re.findall(r"^RUN (ticdc-assets .+)$", file, re.MULTILINE):
        yield from (words for part in line.split("&&") if (words := shlex.split(part))[0] == "ticdc-assets")
    for service in loaded("compose.yaml")["services"].values():
        tested = service.get("healthcheck", {}).get("test", [])
        yield from (words for words in (service.get("command"), tested[1:]) if words and words[0].startswith("dagster"))
    [code] = loaded("values.yaml")["dagster-user-deployments"]["deployments"]
    yield ["dagster", "code-server", "start", "--host", "0.0.0.0", "--port", str(code["port"]), *code["codeServerArgs"]]
    [started] = re.findall(r"^ExecStart=(.+)$", UNIT.read_text(), re.MULTILINE)
    program, *arguments = shlex.split(started)
    yield [Path(program).name, *arguments]


def test_every_command_is_accepted_with_its_options():
    clicks = {
        "dagster": create_dagster_cli(),
        "dagster-daemon": create_dagster_daemon_cli(),
        "dagster-webserver": create_dagster_webserver_cli(),
    }
    called = list(commands())

    for name, *arguments in called:
        if name == "ticdc-assets":
            entry.parser().parse_args(arguments)
            continue
        command: Any = clicks[name]
        while hasattr(command, "commands"):
            command = command.commands[arguments.pop(0)]
        here = [argument.replace("/opt/dagster/home", str(DEPLOY)) for argument in arguments]
        command.parse_args(command.context_class(command), here)
    assert {name for name, *_ in called} == {*clicks, "ticdc-assets"}


# -- Dagster -----------------------------------------------------------------------------------------------------------


def test_the_instance_differs_from_that_of_the_repository_in_its_storage_alone(monkeypatch: pytest.MonkeyPatch):
    ours = yaml.safe_load((REPOSITORY / "dagster.yaml").read_text(encoding="utf-8"))
    deployed = loaded("dagster.yaml")

    assert deployed.pop("storage").keys() == {"postgres"}
    assert deployed == ours
    config, _ = dagster_instance_config(str(DEPLOY))
    assert config["storage"].keys() == {"postgres"}


@pytest.mark.services
@pytest.mark.skipif(bool(missing()), reason="PostgreSQL is not installed")
def test_the_instance_keeps_runs_and_events_in_postgresql(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("dagster_postgres")
    with postgresql() as port:
        (tmp_path / "dagster.yaml").write_text(read("dagster.yaml").replace("5432", str(port)))
        for name, value in (("HOST", "127.0.0.1"), ("USER", USER), ("PASSWORD", PASSWORD), ("DB", "postgres")):
            monkeypatch.setenv(f"POSTGRES_{name}", value)
        with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
            run = instance.run_storage.add_run(dg.DagsterRun("shop__run", run_id=make_new_run_id()))
            instance.report_engine_event("an event", run)

            [entry] = instance.all_logs(run.run_id)
            assert entry.dagster_event is not None and entry.dagster_event.message == "an event"


def test_compose_gives_dagster_all_that_its_instance_and_workspace_ask_for():
    compose = loaded("compose.yaml")
    [location] = loaded("workspace.yaml")["load_from"]
    wanted = set(re.findall(r"\{env: (\w+)\}", read("dagster.yaml")))

    for name in ("code", "webserver", "daemon"):
        service = compose["services"][name]
        assert wanted <= service["environment"].keys()
        assert service["read_only"] and service["tmpfs"] == ["/tmp"]
        mounted = {volume.split(":")[0] for volume in service["volumes"]}
        assert {path for path in mounted if not path.startswith("./")} <= compose["volumes"].keys()
        assert {path for path in mounted if path.startswith("./")} - {"./changefeeds.yaml"} <= {
            f"./{path.name}" for path in DEPLOY.iterdir()
        }
    assert location["grpc_server"]["host"] in compose["services"]
    assert f'"-p", "{location["grpc_server"]["port"]}"' in read("Containerfile")


def test_the_chart_has_the_limits_of_the_repositorys_instance_and_no_root():
    values = loaded("values.yaml")
    ours = yaml.safe_load((REPOSITORY / "dagster.yaml").read_text(encoding="utf-8"))["concurrency"]["runs"]
    queued = values["dagsterDaemon"]["runCoordinator"]["config"]["queuedRunCoordinator"]
    [code] = values["dagster-user-deployments"]["deployments"]

    assert queued["maxConcurrentRuns"] == ours["max_concurrent_runs"]
    assert queued["tagConcurrencyLimits"] == ours["tag_concurrency_limits"]
    assert {volume["name"] for volume in code["volumes"]} == {mount["name"] for mount in code["volumeMounts"]}
    user = code["podSecurityContext"]["runAsUser"]
    assert f"--uid {user} " in read("Containerfile") and f"USER {user}:{user}" in read("Containerfile")


# -- systemd -----------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")
def test_systemd_accepts_the_unit(tmp_path: Path):
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/ticdc-assets/bin/ticdc-assets", "/bin/true"))

    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)

    assert [line for line in done.stderr.splitlines() if UNIT.name in line] == []


# -- metrics -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["prometheus-alerts.yaml", "grafana-dashboard.json"])
def test_every_metric_that_is_named_exists(name: str):
    exported = {f"ticdc_assets_{family}{'_total' * (kind == 'counter')}" for family, (kind, _) in FAMILIES.items()}

    named = set(re.findall(r"\bticdc_assets_[a-z_]+", read(name)))

    assert len(named) > 5
    assert named <= exported


def test_every_metric_is_on_the_dashboard():
    board = json.loads(read("grafana-dashboard.json"))
    shown = " ".join(target["expr"] for panel in board["panels"] for target in panel["targets"])

    assert [family for family in FAMILIES if f"ticdc_assets_{family}" not in shown] == []
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


def test_every_alert_has_a_severity_and_a_sentence():
    [group] = loaded("prometheus-alerts.yaml")["groups"]

    for rule in group["rules"]:
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"]["summary"].endswith(".")
