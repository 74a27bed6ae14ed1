"""Tables with a column of each type of MySQL."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

KINDS: dict[str, tuple[Any, Any]] = {
    "BIGINT UNSIGNED": (2**64 - 1, Decimal(2**64 - 1)),
    "INT(5) UNSIGNED ZEROFILL": (42, 42),
    "FLOAT": (123456790, 123456792.0),
    "DOUBLE": (0.1, 0.1),
    "DECIMAL(20,10)": ("-0.0000000001", Decimal("-0.0000000001")),
    "DECIMAL(65,30)": ("1.500000000000000000000000000000", "1.500000000000000000000000000000"),
    "BIT(64)": (2**64 - 1, Decimal(2**64 - 1)),
    "BIT(10)": (5, 5),
    "YEAR": (0, 0),
    "CHAR(20)": ("it's \\ % é", "it's \\ % é"),
    "VARBINARY(9)": ({"b64": "AP8nXA=="}, b"\x00\xff'\\"),
    "DATE": ("2024-02-29", date(2024, 2, 29)),
    "DATETIME(3)": ("2024-02-29 01:02:03.100", datetime(2024, 2, 29, 1, 2, 3, 100_000)),
    "TIMESTAMP(6)": ("2024-02-29 09:02:03.000001", datetime(2024, 2, 29, 1, 2, 3, 1, UTC)),
    "TIME(3)": ("-838:59:59.000", "-838:59:59.000"),
    "ENUM('a','b''c')": (2, "b'c"),
    "SET('a','b','c')": (5, "a,c"),
}

KEYLESS: dict[str, tuple[Any, Any]] = {
    "JSON": ('{"a": [1, "é"]}', '{"a": [1, "é"]}'),
    "LONGTEXT": ("x" * 100_000, "x" * 100_000),
    "MEDIUMBLOB": ({"b64": "/w=="}, b"\xff"),
    "VECTOR": ("[1,0.1]", [1.0, 0.10000000149011612]),
    "DATE": ("0000-00-00", None),
    "TIMESTAMP": ("0000-00-00 00:00:00", None),
    "ENUM('a')": (0, ""),
    "TEXT": (None, None),
}
