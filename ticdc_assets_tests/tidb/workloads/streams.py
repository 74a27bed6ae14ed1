"""What a TiDB server does at the statements of `corpus/tidb_streams`, of which TiCDC's own output is there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ticdc_assets_tests.fixtures import CORPUS
from ticdc_assets_tests.tidb.recording import History
from ticdc_assets_tests.tidb.server import Tidb
from ticdc_assets_tests.tidb.workloads.features import BEGIN, play

FOLDERS: Final = sorted(path.parents[1] for path in (CORPUS / "tidb_streams").glob("*/log/statements.jsonl"))


def histories(_: Tidb, count: int, seed: int) -> Iterator[History]:
    """A history of each stream."""
    for folder in FOLDERS:
        yield play("shop", [*_script(folder)])[0]


def _script(folder: Path) -> Iterator[str | list[str]]:
    for line in (folder / "log" / "statements.jsonl").read_text().splitlines():
        said = json.loads(line)
        sql = said.get("sql", "")
        if said.get("cmd") == "start":
            yield BEGIN
        elif sql.startswith("set "):
            yield sql.replace("set", "SET", 1)
        elif sql.startswith(("insert", "update", "delete")):
            yield [sql]
        elif sql and not sql.startswith(("use ", "create database")):
            yield re.sub(r"(\w+) to (\w+)", r"`\1` TO `\2`", sql)
