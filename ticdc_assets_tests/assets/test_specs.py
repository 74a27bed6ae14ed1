"""A snapshot of all that the definitions of a changefeed show: assets, checks, jobs, sensors and schedules.

A change of it is a change of what users build on. `UPDATE_SNAPSHOT=1` writes it again.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import dagster as dg

from ticdc_assets_tests.assets.feeds import Feed

SNAPSHOT = Path(__file__).with_name("specs.json")


def assets(graph: Any) -> dict[str, Any]:
    return {
        key.to_user_string(): {
            "upstream": sorted(parent.to_user_string() for parent in node.parent_keys),
            "group": node.group_name,
            "kinds": sorted(node.kinds),
            "description": node.description,
            "metadata": {name: str(value) for name, value in sorted(node.metadata.items()) if name[:8] != "dagster/"},
            "table": str(node.metadata.get("dagster/table_name", "")),
            "owners": list(node.owners),
            "tags": {name: value for name, value in sorted(node.tags.items()) if not name.startswith("dagster/")},
            "code_version": node.code_version,
            "external": node.is_external,
            "partitions": type(node.partitions_def).__name__ if node.partitions_def else None,
            "fresh_s": node.freshness_policy and node.freshness_policy.fail_window.to_timedelta().total_seconds(),
        }
        for key in sorted(graph.get_all_asset_keys())
        for node in [graph.get(key)]
    }


def checks(graph: Any) -> dict[str, Any]:
    listed = {
        f"{key.asset_key.to_user_string()} {key.name}": {"blocking": node.blocking, "description": node.description}
        for key in graph.asset_check_keys
        for node in [graph.get(key)]
    }
    return dict(sorted(listed.items()))


def shown(definitions: dg.Definitions) -> dict[str, Any]:
    repository = definitions.get_repository_def()
    graph = definitions.resolve_asset_graph()
    return {
        "assets": assets(graph),
        "checks": checks(graph),
        "jobs": sorted(job.name for job in repository.get_all_jobs() if not job.name.startswith("__")),
        "sensors": {s.name: [s.default_status.value, s.description] for s in repository.sensor_defs},
        "schedules": {s.name: [s.default_status.value, s.cron_schedule] for s in repository.schedule_defs},
    }


def feed_of(folder: Path) -> Feed:
    settings = {
        "max_lag": "1h",
        "days_from": "2025-10-09",
        "owners": {"shop.users": ["team:data"]},
        "tags": {"*.*": {"domain": "crm"}},
    }
    feed = Feed(folder, dagster=settings).table("shop", "users").table("shop", "log", keyless=True)
    return feed.table("my-db", "表").checkpoint(10)


def test_what_the_definitions_show_is_what_it_was(tmp_path: Path):
    text = json.dumps(shown(feed_of(tmp_path).definitions), indent=1, ensure_ascii=False, default=str)
    text = text.replace(str(tmp_path), "FOLDER") + "\n"
    if os.environ.get("UPDATE_SNAPSHOT"):
        SNAPSHOT.write_text(text, encoding="utf-8")

    assert json.loads(text) == json.loads(SNAPSHOT.read_text(encoding="utf-8"))
