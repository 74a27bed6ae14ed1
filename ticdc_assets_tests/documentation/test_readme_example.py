"""The README's message becomes the rows that the README shows."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

from ticdc_assets.config import load
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.run import run_of
from ticdc_assets.spark import LocalWorkers
from ticdc_assets_tests.documentation.pages import REPOSITORY, Page

README = Page(REPOSITORY / "README.md")
CREATED = {
    "id": 0, "database": "shop", "table": "users", "pkNames": None, "isDdl": True, "type": "CREATE", "es": 1, "ts": 1,
    "sql": "CREATE TABLE `users` (`id` INT PRIMARY KEY, `name` VARCHAR(20))", "sqlType": None, "mysqlType": None,
    "data": None, "old": None, "_tidb": {"commitTs": 1 << 18},
}  # fmt: skip


def capture(folder: Path, *messages: dict) -> Path:
    lines = [
        {"topic": "t", "partition": 0, "offset": n, "key": None, "ts_ms": 0,
         "value": base64.b64encode(json.dumps(message).encode()).decode()}
        for n, message in enumerate(messages)
    ]  # fmt: skip
    path = folder / "messages.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def cells(first_column: str) -> dict[str, str]:
    """The row of the README's table that begins with a column."""
    head, row = re.search(rf"^\| ({first_column} .*) \|\n\|[-|]+\|\n\| (.*) \|$", README.text, re.MULTILINE).groups()
    return dict(zip(head.split(" | "), row.split(" | "), strict=True))


def test_the_readmes_message_becomes_the_row_that_it_shows(tmp_path):
    [block] = README.blocks("json")
    message = json.loads(block)
    watermark = {"type": "TIDB_WATERMARK", "_tidb": {"watermarkTs": message["_tidb"]["commitTs"]}}
    path = capture(tmp_path, CREATED, message, watermark)
    config = tmp_path / "changefeeds.yaml"
    config.write_text(
        "changefeeds: {shop: {sink_uri: 'kafka://k/t?protocol=canal-json&enable-tidb-extension=true', "
        f"source: {{capture: {path}}}}}}}"
    )
    loaded = load(config, {})
    lake = Lake(loaded, loaded.changefeed("shop"))
    run = run_of(lake)
    report = run.publish_changelogs(run.scan(), LocalWorkers())

    [table] = report.record.tables
    [row] = (
        Lake(loaded, loaded.changefeed("shop")).catalog.load_table(tuple(table.changelog)).scan().to_arrow().to_pylist()
    )
    shown = cells("_ticdc_op")
    assert ".".join(table.changelog) == "shop__changes.users"
    assert {name: str(row[name]) for name in ("_ticdc_op", "_ticdc_commit_ts", "id", "name")} == {
        name: shown[name] for name in ("_ticdc_op", "_ticdc_commit_ts", "id", "name")
    }
    assert row["_ticdc_commit_time"].strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] == shown["_ticdc_commit_time"]
    assert "{" + ", ".join(f"{k}: {v}" for k, v in row["_ticdc_before"].items()) + "}" == shown["_ticdc_before"]
    assert cells("id") == {name: shown[name] for name in ("id", "name", "_ticdc_commit_ts")}
