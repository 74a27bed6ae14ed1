"""The bulk decoder of the Simple protocol in JSON.

It decodes whole rows in TiCDC's form without a checksum; rows with a checksum are verified row by row.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import orjson

from ticdc_assets.protocols.columnar.json_messages import RowGrammar
from ticdc_assets.protocols.columnar.message_rows import Bulk
from ticdc_assets.protocols.columnar.scanned_rows import COMMIT_TS, SCHEMA_VERSION
from ticdc_assets.protocols.formats.json.texts import ScannedTexts
from ticdc_assets.protocols.formats.string_arrays import Mask
from ticdc_assets.protocols.simple.decoder import SimpleOptions
from ticdc_assets.protocols.simple.json.grammar import HEAD, ROW, SOURCE
from ticdc_assets.protocols.values import native_columns


def _columns(text: bytes) -> tuple[str, ...]:
    """The column names of the row in a text; empty if it has no row."""
    try:
        message = orjson.loads(text)
        return tuple((message["old"] if message["type"] == "DELETE" else message["data"]).keys())
    except (orjson.JSONDecodeError, LookupError, TypeError, AttributeError):
        return ()


def _is_sound(found: ScannedTexts, options: SimpleOptions) -> Mask:
    """The rows whose names are not empty and whose commit_ts and schema version are positive."""
    has_names = (found.strings[:, :, 0] != found.strings[:, :, 1]).all(axis=1)
    has_times = (found.numbers[:, [COMMIT_TS, SCHEMA_VERSION]] > 0).all(axis=1)
    return np.asarray(has_names & has_times)


_GRAMMAR: Final = RowGrammar(ROW, HEAD, SOURCE, _columns, _is_sound)
BULK: Final = Bulk(_GRAMMAR.heads, _GRAMMAR.rows, native_columns.column)
