"""The properties of tables in which this project keeps what it knows of them."""

from __future__ import annotations

from typing import Final

SOURCE_TABLE: Final = "ticdc.source-table"
COLUMNS: Final = "ticdc.columns"
VERSION: Final = "ticdc.version"
BORN: Final = "ticdc.born-version"
REPLAYED: Final = "ticdc.replayed"
EFFECTS: Final = "ticdc.effects"
"""A digest of the effects of the statements up to a mirror's version."""
