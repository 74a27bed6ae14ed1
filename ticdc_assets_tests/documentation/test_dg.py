"""The command `dg`: it loads this project and the one in docs/example, and scaffolds a changefeed in a new one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ticdc_assets_tests.documentation.pages import REPOSITORY

DG = Path(sys.executable).with_name("dg")
COMPONENT = "ticdc_assets.component.TicdcAssetsComponent"
SECONDS_MAX = 240

pytestmark = pytest.mark.skipif(not DG.exists(), reason="`dg` is not installed: pip install dagster-dg-cli")

PROJECT = """
[project]
name = "my-lake"
version = "0.1.0"
[tool.dg]
directory_type = "project"
[tool.dg.project]
root_module = "my_lake"
"""
DEFINITIONS = """
from pathlib import Path
from dagster import definitions, load_from_defs_folder

@definitions
def defs():
    return load_from_defs_folder(path_within_project=Path(__file__).parent)
"""


@pytest.fixture
def new_project(tmp_path: Path) -> Path:
    """A project without definitions, as `create-dagster project` makes it."""
    (tmp_path / "my_lake" / "defs").mkdir(parents=True)
    (tmp_path / "my_lake" / "__init__.py").touch()
    (tmp_path / "my_lake" / "definitions.py").write_text(DEFINITIONS)
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    return tmp_path


@pytest.mark.long
def test_dg_lists_the_assets_of_this_project(tmp_path: Path):
    listed = json.loads(dg_command(REPOSITORY, tmp_path, "list", "defs", "--json"))
    keys = {asset["asset_key"] for asset in listed["assets"]}
    assert {"storage_csv/source", "open/watermarks", "simple_avro/quarantine"} <= keys


def test_dg_accepts_the_yaml_of_the_example(tmp_path: Path):
    shutil.copytree(REPOSITORY / "docs" / "example", tmp_path / "example")
    assert "validated successfully" in dg_command(tmp_path / "example", tmp_path, "check", "yaml")


def test_dg_scaffolds_a_changefeed_that_passes_its_checks(new_project: Path):
    uri = f"file://{new_project}/bucket?protocol=csv"
    arguments = ("--changefeed", "shop", "--sink-uri", uri)
    dg_command(new_project, new_project, "scaffold", "defs", COMPONENT, "lake", *arguments)
    assert uri in (new_project / "changefeeds.yaml").read_text()
    assert "loaded successfully" in dg_command(new_project, new_project, "check", "defs")


def dg_command(folder: Path, home: Path, *arguments: str) -> str:
    """The output of a command, run in a folder, with Dagster's settings of this project and its telemetry off."""
    dagster_home = home / "dagster_home"
    dagster_home.mkdir(exist_ok=True)
    shutil.copy(REPOSITORY / "dagster.yaml", dagster_home)
    done = subprocess.run(
        [DG, *arguments],
        cwd=folder,
        env=os.environ | {"DAGSTER_HOME": str(dagster_home), "PATH": f"{DG.parent}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
