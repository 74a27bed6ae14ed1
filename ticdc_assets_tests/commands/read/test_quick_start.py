"""What the commands that only read import: a user waits for nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets.cli import main
from ticdc_assets_tests.assets.feeds import Feed, ts
from ticdc_assets_tests.assets.feeds import without_java as without_java
from ticdc_assets_tests.commands.called import no_dagster_home as no_dagster_home
from ticdc_assets_tests.commands.called import on, shop

ENGINES = ("pandas", "dagster", "pyspark", "py4j", "numba", "confluent_kafka", "pymysql")
GRAMMAR = "ticdc_assets.schema.ddl.parser"
CALLED = """
import sys
from ticdc_assets.cli import main
code = main(sys.argv[2:])
print("imported:", *[name for name in sys.argv[1].split(",") if name in sys.modules])
sys.exit(code)
"""


@pytest.fixture
def lake(tmp_path: Path, without_java: None, capfd: Any) -> Feed:
    feed = shop(tmp_path)
    assert main(on(feed, "run")) == 0
    return feed


@pytest.mark.parametrize(
    ("command", "without"),
    [
        (["tables"], (*ENGINES, GRAMMAR)),
        (["tables", "--json"], ENGINES),
        (["snapshot", "--list"], (*ENGINES, GRAMMAR)),
        (["snapshot", "--at", str(ts(10))], ENGINES),
        (["schema", "shop.users", "--at", str(ts(10))], ENGINES),
        (["diff", str(ts(9)), str(ts(10))], ENGINES),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, list) else "",
)
def test_a_command_that_only_reads_imports_no_engine(lake: Feed, command: list[str], without: tuple[str, ...]):
    assert _imported(lake, command, without) == []


def test_a_library_that_a_command_does_not_import_is_imported_when_it_is_used(lake: Feed):
    asking = "import pyarrow; assert list(pyarrow.table({'a': [1, 2]}).to_pandas()['a']) == [1, 2]\n"

    assert _imported(lake, ["tables"], ("pandas",), then=asking) == ["pandas"]


def _imported(feed: Feed, command: list[str], names: tuple[str, ...], then: str = "") -> list[str]:
    """Those of the modules that a process has imported after the command, and after the lines `then`."""
    script = CALLED.replace("print(", f"{then}print(", 1)
    done = subprocess.run(
        [sys.executable, "-c", script, ",".join(names), *on(feed, command[0], *command[1:])],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1].removeprefix("imported:").split()
