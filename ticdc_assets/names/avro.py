"""Names in Avro schemas: TiCDC writes `_` for every character that Avro does not allow."""

from __future__ import annotations

import re
from typing import Final

_NOT_AVRO: Final = re.compile(r"[^A-Za-z0-9_]")


def sanitised(name: str) -> str:
    """The name of a database, table or column in Avro schemas."""
    found = _NOT_AVRO.sub("_", name)
    return f"_{found}" if found[:1].isdigit() else found
