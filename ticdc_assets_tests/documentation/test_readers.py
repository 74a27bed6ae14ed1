"""The snippets of the page on readers, run: each reads a mirror with deletion vectors, and a changelog."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyiceberg.expressions import EqualTo

from ticdc_assets import spark
from ticdc_assets.assets.lake_resource import LakeResource
from ticdc_assets.errors import ConfigError
from ticdc_assets_tests.documentation.pages import REPOSITORY
from ticdc_assets_tests.pipeline.lakes import FeedLake
from ticdc_assets_tests.pipeline.small_feeds import Sink

pytestmark = pytest.mark.spark

ORDERS = ("shop", "orders")
SECONDS_MAX = 120
# The sections below this one are not about one reader.
PAGE, _ = (REPOSITORY / "docs" / "readers.md").read_text(encoding="utf-8").split("## Tables in an object store")
SNIPPETS = dict(re.findall(r"^## (.+?)\n.*?^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
COLUMNS = ["id", "name", "_ticdc_commit_ts"]
TELL = f"""
import json
print("ROWS", json.dumps(sorted(rows.select({COLUMNS}).to_pylist(), key=str)))
"""
TABLES = ["shop.orders", "shop__changes.orders"]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> FeedLake:
    """A table of which rows were updated and deleted after the mirror had them."""
    folder = tmp_path_factory.mktemp("readers")
    sink = Sink(folder / "bucket")
    sink.table(ORDERS)
    sink.file(ORDERS, 1, [sink.insert(ORDERS, 100 + n, n, f"row {n}") for n in range(1, 5)])
    sink.bucket.checkpoint(150)
    made = sink.feed(folder / "lake").lake
    made.run()
    sink.file(ORDERS, 2, [sink.line(ORDERS, "D", 160, 1, "row 1"), sink.line(ORDERS, "U", 161, 2, "changed")])
    sink.bucket.checkpoint(200)
    made.run()
    mirror = made.lake.catalog.load_table(ORDERS)
    assert mirror.metadata.format_version == 3
    assert any(task.delete_files for task in mirror.scan().plan_files()), "the mirror has no deletes"
    return made


def wanted(lake: FeedLake, table: str) -> list[dict[str, Any]]:
    if table == TABLES[0]:
        rows = [(2, "changed", 161), (3, "row 3", 103), (4, "row 4", 104)]
    else:
        rows = [(n, f"row {n}", 100 + n) for n in range(1, 5)] + [(1, "row 1", 160), (2, "changed", 161)]
    return sorted(({"id": i, "name": name, "_ticdc_commit_ts": ts} for i, name, ts in rows), key=str)


def test_the_page_has_a_snippet_for_every_reader_that_it_calls_tested():
    assert set(re.findall(r"^\| \[(.+?)\]", PAGE, re.MULTILINE)) == SNIPPETS.keys()


@pytest.mark.parametrize("table", TABLES)
def test_the_snippet_for_spark_reads_changelogs_and_mirrors(lake: FeedLake, table: str):
    names = {"spark": spark.session(lake.config)}

    exec(_of(SNIPPETS["Spark"], lake, table), names)

    found = names["rows"].select(COLUMNS).to_pylist()  # type: ignore[attr-defined]
    assert sorted(found, key=str) == wanted(lake, table)


def rows_of(table: Any) -> list[Any]:
    """Id and name of each row, in every form; polars where it is installed."""
    columns = ["id", "name"]
    forms = [table.to_arrow(columns).to_pylist(), table.to_pandas(columns).to_dict("records")]
    forms.append([dict(zip(columns, row, strict=True)) for row in table.to_duckdb(columns).fetchall()])
    forms.append([row.asDict() for row in table.to_spark(columns).collect()])
    if importlib.util.find_spec("polars") is not None:
        forms.append(table.to_polars(columns).to_dicts())
    found = [sorted((row["id"], row["name"]) for row in form) for form in forms]
    assert all(rows == found[0] for rows in found), found
    return found[0]


def test_every_form_of_a_recorded_mirror_has_the_rows_of_its_tso(lake: FeedLake):
    resource = LakeResource(config_path=str(lake.config.path))

    assert rows_of(resource.mirror("shop.orders")) == [(2, "changed"), (3, "row 3"), (4, "row 4")]
    assert rows_of(resource.mirror("shop.orders", at=199)) == [(n, f"row {n}") for n in range(1, 5)]
    assert len(rows_of(resource.changelog("shop.orders", at=150))) == 4
    few = resource.mirror("shop.orders").to_spark(["name"], where="id = 3")
    assert [row.asDict() for row in few.collect()] == [{"name": "row 3"}]
    with pytest.raises(ConfigError, match="expected a condition in SQL for Spark"):
        resource.mirror("shop.orders").to_spark(where=EqualTo("id", 3))  # type: ignore[arg-type]


@pytest.mark.variants(3)
@pytest.mark.parametrize("reader", sorted(SNIPPETS.keys() - {"Spark"}))
@pytest.mark.parametrize("table", TABLES)
def test_the_snippet_of_each_reader_reads_changelogs_and_mirrors(
    reader: str, lake: FeedLake, table: str, tmp_path: Path
):
    catalog = {"type": "sql", "uri": lake.config.catalog.uri}
    (tmp_path / ".pyiceberg.yaml").write_text(yaml.safe_dump({"catalog": {lake.catalog_name: catalog}}))
    environ = {**os.environ, "PYICEBERG_HOME": str(tmp_path), "PYTHONPATH": os.environ.get("TICDC_ASSETS_READERS", "")}

    code = _of(SNIPPETS[reader], lake, table) + TELL
    command = [sys.executable, "-c", code]
    ended = subprocess.run(
        command, env=environ, capture_output=True, text=True, timeout=SECONDS_MAX, cwd=tmp_path, check=False
    )

    if "ModuleNotFoundError" in ended.stderr and reader != "pyiceberg":
        pytest.skip("not installed: .ci/readers.txt, in a folder that TICDC_ASSETS_READERS names")
    assert ended.returncode == 0, ended.stderr[-3000:]
    [said] = [line for line in ended.stdout.splitlines() if line.startswith("ROWS ")]
    assert json.loads(said.removeprefix("ROWS ")) == wanted(lake, table)


def _of(snippet: str, lake: FeedLake, table: str) -> str:
    """The snippet for this lake's catalog and a table."""
    named = snippet.replace('load_catalog("lake")', f'load_catalog("{lake.catalog_name}")')
    return named.replace("lake.shop.orders", f"{lake.catalog_name}.shop.orders").replace("shop.orders", table)
