"""Golden files of the storage sink, kept in `corpus/golden/files.jsonl` with their rows in `files.events.json`.

A line holds where the file is from, how it is read (`csv` options and the table's stored columns; Canal-JSON needs
none) and its bytes in base64.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ticdc_assets.config.ticdc.sink_options import read_sink
from ticdc_assets.protocols.canal_json import decoder as canal_json
from ticdc_assets.protocols.csv import decoder as csv
from ticdc_assets.protocols.csv.options import CsvOptions
from ticdc_assets.protocols.storage.schema_file import parse_schema_file
from ticdc_assets_tests.golden.messages import GOLDEN, plain, write_events

VARIANTS = (
    "storage-csv",
    "storage-csv-noquote",
    "storage-csv-no-commit-ts",
    "storage-csv-old-value-handle-hex-header",
    "storage-canal-json",
    "storage-canal-json-tidb",
)
TABLES = ("users", "codes")
FILE = "files"


def rows(entry: Mapping[str, Any]) -> list[Any]:
    """What the reference reader finds in a file: rows with the ordinals of their records."""
    data = b64decode(entry["data"])
    if "csv" not in entry:
        return list(canal_json.read_file(data, "golden"))
    options, columns = CsvOptions(**entry["csv"]), tuple(entry["columns"])
    return list(csv.changes(csv.read(data, options, len(columns), "golden"), columns))


def take(fixtures: Path) -> None:
    """Of each variant the largest file of some tables."""
    entries = [entry for variant in VARIANTS for entry in _entries(fixtures / variant / "seed1", variant)]
    with (GOLDEN / f"{FILE}.jsonl").open("w") as file:
        for entry in entries:
            file.write(json.dumps(entry, ensure_ascii=False) + "\n")
    write_events(FILE, [plain(rows(entry)) for entry in entries])


def _entries(root: Path, variant: str) -> list[dict[str, Any]]:
    described = json.loads((root / "variant.json").read_text())
    sink, _ = read_sink(described["sink_uri"], described["config"])
    entries = []
    for table in TABLES:
        file = max((root / "data/shop" / table).rglob("CDC*.*"), key=lambda path: (path.stat().st_size, path.name))
        entry: dict[str, Any] = {"from": f"{variant}/seed1/{file.relative_to(root)}"}
        if str(sink.protocol) == "csv":
            entry["csv"] = asdict(sink.csv)
            entry["columns"] = _columns(root / "data/shop" / table, file)
        entries.append({**entry, "data": b64encode(file.read_bytes()).decode()})
    return entries


def _columns(folder: Path, file: Path) -> list[str]:
    version = file.relative_to(folder).parts[0]
    path = next((folder / "meta").glob(f"schema_{version}_*.json"))
    return [column.name for column in parse_schema_file(path.read_bytes(), str(path)).columns]
