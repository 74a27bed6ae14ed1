"""Several tables in one commit: all move, or none; a catalog that cannot is refused before anything is written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table

from ticdc_assets.errors import ConfigError
from ticdc_assets.tables.iceberg.commits import uncommitted
from ticdc_assets.tables.iceberg.joint_commit import PreparedChange, joint_commits, tidied

ROW = pa.table({"id": pa.array([1], pa.int64())})


@pytest.fixture
def tables(tmp_path: Path) -> list[Table]:
    """Two tables of a catalog in SQLite, without rows."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/lake.db", warehouse=f"file://{tmp_path}/lake")
    catalog.create_namespace("s")
    keeps_two = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}
    return [catalog.create_table(("s", name), ROW.schema, properties=keeps_two) for name in ("t", "u")]


def prepared(tables: list[Table]) -> list[PreparedChange]:
    """A row for each table."""
    changes = []
    for table in tables:
        transaction = uncommitted(table)
        transaction.append(ROW)
        changes.append(joint_commits(table.catalog).prepare_transaction(transaction))
    return changes


def rows(tables: list[Table]) -> list[int]:
    return [table.refresh().scan().to_arrow().num_rows for table in tables]


def test_all_tables_move_at_the_commit_and_not_before(tables: list[Table]):
    changes = prepared(tables)
    assert rows(tables) == [0, 0]

    joint_commits(tables[0].catalog).publish(changes)

    assert rows(tables) == [1, 1]


def test_no_table_moves_where_another_writer_has_changed_one(tables: list[Table]):
    changes = prepared(tables)
    tables[1].append(ROW)

    with pytest.raises(CommitFailedException, match=r"s\.u has been changed"):
        joint_commits(tables[0].catalog).publish(changes)

    assert rows(tables) == [0, 1]


def test_old_metadata_files_are_removed_as_after_any_commit(tables: list[Table], tmp_path: Path):
    for _ in range(3):
        changes = prepared(tables)
        joint_commits(tables[0].catalog).publish(changes)
        tidied(changes)
        rows(tables)

    assert [len(list((tmp_path / "lake" / "s" / name).rglob("*.metadata.json"))) for name in ("t", "u")] == [2, 2]


@contextmanager
def server(endpoints: list[str] | None) -> Iterator[str]:
    """A REST catalog that tells its endpoints, or does not."""
    answer = {"defaults": {}, "overrides": {}} | ({"endpoints": endpoints} if endpoints is not None else {})

    class Config(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.send_error(404)

        def log_message(self, *arguments: object) -> None:
            pass

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Config)
    Thread(target=listening.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listening.server_port}"
    finally:
        listening.shutdown()
        listening.server_close()


REFUSAL = "expected one that commits several tables at once, since the config has `publish: together`, found"


def test_a_server_whose_list_of_endpoints_lacks_joint_commits_is_refused():
    others = ["GET /v1/{prefix}/namespaces", "POST /v1/{prefix}/namespaces/{namespace}/register-view"]
    with server(others) as uri, pytest.raises(ConfigError, match=REFUSAL):
        joint_commits(load_catalog("lake", type="rest", uri=uri))


def test_a_server_that_lists_joint_commits_is_taken():
    with server(["GET /v1/{prefix}/namespaces", "POST /v1/{prefix}/transactions/commit"]) as uri:
        joint_commits(load_catalog("lake", type="rest", uri=uri))


def test_a_server_that_lists_nothing_is_asked_and_its_refusal_is_explained():
    with server(None) as uri:
        commits = joint_commits(load_catalog("lake", type="rest", uri=uri))
        with pytest.raises(ConfigError, match=REFUSAL):
            commits.publish([PreparedChange(("s", "t"), "{}")])
