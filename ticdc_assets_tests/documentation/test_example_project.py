"""The example project of docs/example loads, its changefeed runs, and its assets read the tables."""

from __future__ import annotations

import importlib
import importlib.util
import shutil
import sys
from collections.abc import Iterator
from typing import Any

import dagster as dg
import pytest

from ticdc_assets import spark
from ticdc_assets_tests.assets.feeds import QUIET, failures, materializations
from ticdc_assets_tests.documentation.pages import REPOSITORY

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:.*is currently in beta"),  # Dagster's own, while it loads components
    pytest.mark.filterwarnings("ignore:.*is currently in preview"),
]

USERS = 15  # of sample/expected.json
ENGINES = {
    "users_by_arrow": "pyarrow",
    "users_by_polars": "polars",
    "changes_by_duckdb": "duckdb",
    "users_by_spark": "pyspark",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dg.Definitions]:
    """A copy of the project next to the sample, so that its lake is not in the repository."""
    root = tmp_path_factory.mktemp("example")
    shutil.copytree(REPOSITORY / "docs" / "example", root / "docs" / "example")
    (root / "ticdc_assets").mkdir()
    (root / "ticdc_assets" / "sample").symlink_to(REPOSITORY / "ticdc_assets" / "sample")
    spark.stop()  # the session of another test has other settings
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(root / "docs" / "example")
        yield importlib.import_module("shop_reports.definitions").defs()
        for name in [name for name in sys.modules if name.partition(".")[0] == "shop_reports"]:
            del sys.modules[name]
    spark.stop()


@pytest.fixture(scope="module")
def ran(project: dg.Definitions) -> dg.ExecuteInProcessResult:
    """The run of the changefeed, which fills the lake."""
    return project.resolve_job_def("shop__run").execute_in_process(QUIET, raise_on_error=False)


def test_the_example_project_loads_and_its_changefeed_runs(project: dg.Definitions, ran: dg.ExecuteInProcessResult):
    dg.Definitions.validate_loadable(project)
    graph, mirror = project.resolve_asset_graph(), dg.AssetKey(["shop", "mirror", "shop", "users"])

    assert {key.path[-1] for key in graph.get_all_asset_keys()} >= ENGINES.keys()
    assert (graph.get(mirror).group_name, list(graph.get(mirror).owners)) == ("lake", ["team:data"])
    assert "every_morning" in {schedule.name for schedule in project.get_repository_def().schedule_defs}
    assert failures(ran) == []
    assert materializations(ran)["shop/mirror/shop/users"]["dagster/row_count"] == USERS


@pytest.mark.variants(1)
@pytest.mark.usefixtures("ran")
@pytest.mark.parametrize("name", ENGINES)
def test_an_asset_of_each_engine_reads_what_came_out(project: dg.Definitions, name: str):
    if importlib.util.find_spec(ENGINES[name]) is None:
        pytest.skip(f"{ENGINES[name]} is not installed")
    chosen = [dg.AssetKey(name)]

    result = project.resolve_job_def("reports").execute_in_process(QUIET, asset_selection=chosen)

    told: dict[str, Any] = materializations(result)[name]
    if "users" in told:
        assert told["users"] == USERS
    else:
        assert told["changes"]["I"] - told["changes"].get("D", 0) == USERS
    assert [check.passed for check in result.get_asset_check_evaluations()] == [True] * (name == "users_by_arrow")
