"""`resync --where` and `--keys` against a real TiDB that TICDC_ASSETS_TIDB names: only chosen rows are repaired."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ticdc_assets.cli import main
from ticdc_assets_tests.pipeline.reconcile.tidb_database import SCHEMA, needs_tidb, upstream_of
from ticdc_assets_tests.pipeline.reconcile.tidb_database import tidb as tidb
from ticdc_assets_tests.pipeline.small_feeds import Sink
from ticdc_assets_tests.sources.upstream.real_tidb import Tidb

pytestmark = [pytest.mark.spark, needs_tidb]

USERS = (SCHEMA, "users")


def test_only_chosen_rows_are_compared_and_repaired(tidb: Tidb, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Changes of rows 2 to 5 are lost: 2 and 3 have another name, 4 is deleted, and 5 is new."""
    sink = Sink(tmp_path / "bucket")
    tidb.run("CREATE TABLE users (id INT PRIMARY KEY, name VARCHAR(200))")
    sink.table(USERS)
    ts = tidb.run("INSERT INTO users VALUES (1, 'old'), (2, 'old'), (3, 'old'), (4, 'old')")
    sink.file(USERS, 1, [sink.insert(USERS, ts, key, "old") for key in (1, 2, 3, 4)])
    tidb.run("UPDATE users SET name = 'new' WHERE id IN (2, 3)")
    tidb.run("DELETE FROM users WHERE id = 4")
    sink.bucket.checkpoint(tidb.run("INSERT INTO users VALUES (5, 'new')"))
    feed = sink.feed(tmp_path / "lake", upstream=upstream_of(tidb))
    feed.lake.run()

    def repaired(*options: str) -> tuple[int, dict[int, str]]:
        capsys.readouterr()
        assert main(["resync", ".".join(USERS), *options, "--json", "--config", str(feed.lake.config.path)]) == 0
        rows = feed.lake.lake.catalog.load_table(tuple(feed.record(USERS).mirror)).scan().to_arrow().to_pylist()
        return json.loads(capsys.readouterr().out)[0]["repaired"], {row["id"]: row["name"] for row in rows}

    keys = tmp_path / "keys"
    keys.write_text('2\n[1]\n{"ID": "1"}\n')
    assert repaired("--keys", str(keys)) == (1, {1: "old", 2: "new", 3: "old", 4: "old"})
    # Row 5 matches in TiDB alone, and row 4 in the mirror alone; nothing is asked of row 3.
    assert repaired("--where", "id > 3 AND name LIKE '%e%' OR name = 'old' AND id = 4") == (
        2, {1: "old", 2: "new", 3: "old", 5: "new"}
    )  # fmt: skip
    assert repaired("--where", "name = 'old'") == (1, {1: "old", 2: "new", 3: "new", 5: "new"})
    config = ("--config", str(feed.lake.config.path))
    assert main(["resync", ".".join(USERS), "--where", "name REGEXP BINARY 'x'", *config]) == 2
    assert main(["resync", ".".join(USERS), "--where", "TRUE", "--at", "1", *config]) == 2
