"""Types that a row names without their length hold the widest value that MySQL has of them, digit by digit."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets_tests.pipeline.small_streams import SmallStream, at

TYPES = {"id": "int", "d": "decimal", "u": "decimal unsigned", "b": "bit"}
WIDEST = "9" * 35 + "." + "1" * 30
BITS = (1 << 63) + 5
BITS_MAX = (1 << 64) - 1


def row(tick: int, types: dict[str, str], data: dict[str, Any]) -> tuple[None, bytes]:
    """An INSERT as TiCDC sends it; `mysqlType` has lengths only under content-compatible."""
    head = {"id": 0, "database": "s", "table": "old", "pkNames": ["id"], "isDdl": False, "type": "INSERT"}
    types_sent = {"sqlType": dict.fromkeys(types, 12), "mysqlType": types}
    message = {
        **head,
        "es": 1,
        "ts": 2,
        "sql": "",
        **types_sent,
        "old": None,
        "data": [data],
        "_tidb": {"commitTs": tick},
    }
    return None, json.dumps(message, separators=(",", ":")).encode()


def changelog(folder: Path, types: dict[str, str], *rows: dict[str, Any]) -> Any:
    """The changelog of a table older than the stream, of which these rows came."""
    stream = SmallStream(folder)
    for tick, data in enumerate(rows, 1):
        stream.send("feed", 0, row(at(tick), types, data))
    stream.watermark(9)
    lake = stream.lake()
    lake.publish()
    [table] = lake.records().values()
    return lake.lake.catalog.load_table(tuple(table.changelog or ()))


def test_the_widest_values_of_types_sent_without_a_length_come_whole(tmp_path: Path):
    rows = [
        {"id": "1", "d": WIDEST, "u": WIDEST, "b": str(BITS)},
        {"id": "2", "d": f"-{WIDEST}", "u": "0." + "0" * 29 + "1", "b": str(BITS_MAX)},
        {"id": "3", "d": "1.50", "u": "7", "b": "0"},
    ]

    found = changelog(tmp_path, TYPES, *rows).scan().to_arrow().to_pylist()

    assert {r["id"]: (r["d"], r["u"], r["b"]) for r in found} == {
        1: (WIDEST, WIDEST, Decimal(BITS)),
        2: (f"-{WIDEST}", "0." + "0" * 29 + "1", Decimal(BITS_MAX)),
        3: ("1.50", "7", Decimal(0)),
    }


@pytest.mark.parametrize(
    ("mysql_type", "column_type"),
    [("decimal", "string"), ("bit", "decimal(20, 0)"), ("decimal(10,2)", "decimal(10, 2)"), ("bit(8)", "long")],
)
def test_a_length_in_the_stream_is_kept(tmp_path: Path, mysql_type: str, column_type: str):
    table = changelog(tmp_path, {"id": "int", "v": mysql_type}, {"id": "1", "v": "3"})

    assert str(table.schema().find_field("v").field_type) == column_type
