"""Takes pictures of this project in Dagster: `python -m ticdc_assets_tests.pictures FOLDER`.

Writes a bucket of two tables, starts `dagster dev`, runs the changefeed with Spark, and drives Chromium through the
pages. A second run has a statement that is not understood, for the picture of a failed check. The graph is the picture
of the README: check it and copy it to docs/images/asset-graph.png.

Playwright for Python (`pip install playwright`) and Chromium are needed; `CHROMIUM` names its program where it is not
/usr/bin/chromium. Playwright may be in another environment: `PLAYWRIGHT_PYTHON` names the Python of that one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg

from ticdc_assets.tso import to_datetime
from ticdc_assets_tests.assets.feeds import Feed, ts
from ticdc_assets_tests.services.dagster import Dagster, dagster_dev, until

RUN_TIMEOUT_S = 600
DAYS = 5
"""How many days before today have rows."""
CREATE = """CREATE TABLE `users` (`id` INT NOT NULL COMMENT 'the number of the customer',
 `name` VARCHAR(200) COMMENT 'as on the contract', PRIMARY KEY (`id`)) COMMENT='who buys'"""
LOCATION = "/locations/__repository__@ticdc_assets.definitions"
GRAPH = f"{LOCATION}/asset-groups/shop/lineage"

PAGES = {
    "asset-graph": GRAPH,
    "group": GRAPH,
    "mirror": "/assets/shop/mirror/shop/users",
    "mirror-lineage": "/assets/shop/mirror/shop/users?view=lineage",
    "changelog": "/assets/shop/changelog/shop/users_changes",
    "changelog-events": "/assets/shop/changelog/shop/users_changes?view=events",
    "days": "/assets/shop/days?view=partitions",
    "automation": "/automation",
    "sensor": f"{LOCATION}/sensors/shop_new_files",
    "rebuild": f"{LOCATION}/jobs/shop_rebuild/playground",
}
CLIP = {"x": 290, "y": 335, "width": 1262, "height": 440}
"""The part of the page with the graph of two tables, in pixels."""

FAILED = {"failed-check": "/assets/shop/mirror/shop/users?view=checks"}


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "pictures").absolute()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        feed = _shop(Path(place))
        with dagster_dev(Path(place) / "instance", feed.path) as server:
            _run(server)
            _take(server, folder, PAGES)
            feed.statement("shop", "users", "ALTER TABLE `users` FROBNICATE", _now_s()).checkpoint(_now_s() + 1)
            _run(server)
            _take(server, folder, FAILED)
    print(f"The pictures are in {folder}.")


def _shop(folder: Path) -> Feed:
    settings = {
        "owners": {"shop.*": ["team:data"]},
        "tags": {"shop.users": {"domain": "crm"}},
        "days_from": (datetime.now(UTC) - timedelta(days=DAYS)).date(),
    }
    feed = Feed(folder, dagster=settings)
    feed.statement("shop", "users", CREATE, 1).table("shop", "orders")
    now_s = _now_s()
    feed.rows("shop", "users", *(("I", 100 + n, f"earlier {n}", now_s - n * 86_400) for n in range(DAYS, 0, -1)))
    feed.rows("shop", "users", *(("I", n, f"name {n}", now_s - 90) for n in range(1, 41)))
    feed.rows("shop", "orders", *(("I", n, f"order {n}", now_s - 80) for n in range(1, 121)))
    feed.rows("shop", "users", ("U", 1, "Anna", now_s - 60), ("D", 2, "name 2", now_s - 60))
    return feed.checkpoint(now_s)


def _now_s() -> float:
    return time.time() - to_datetime(ts(0)).timestamp()


def _run(server: Dagster) -> None:
    run_id = server.launch("shop__run")
    ended = (dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)
    until(lambda: server.status(run_id) in ended, RUN_TIMEOUT_S)
    print(f"Run {run_id}: {server.status(run_id).value}.")


def _take(server: Dagster, folder: Path, pages: dict[str, str]) -> None:
    """Take the pictures in a process of its own: Playwright may be installed elsewhere."""
    wanted = {
        "chromium": os.environ.get("CHROMIUM", "/usr/bin/chromium"),
        "clips": {str(folder / "asset-graph.png"): CLIP},
        "pages": {str(folder / f"{name}.png"): f"http://127.0.0.1:{server.port}{path}" for name, path in pages.items()},
    }
    python = os.environ.get("PLAYWRIGHT_PYTHON", sys.executable)
    browser = Path(__file__).with_name("browser.py")
    subprocess.run([python, browser], input=json.dumps(wanted), text=True, check=True, timeout=300)


if __name__ == "__main__":
    main()
