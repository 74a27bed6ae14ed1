"""The recorded histories that tests replay without a server: see `corpus/README.md`."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ticdc_assets_tests.tidb.recording import History, read

FOLDER = Path(__file__).parents[1] / "corpus" / "tidb"
KINDS = ("random", "conversions", "defaults", "partitions")
"""Of one table each; `workloads` are of whole databases."""


@cache
def recorded(kind: str) -> list[History]:
    return read(FOLDER / f"{kind}.jsonl.xz")
