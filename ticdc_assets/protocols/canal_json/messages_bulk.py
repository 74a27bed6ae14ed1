"""The bulk decoder of Canal-JSON messages on Kafka.

It decodes whole rows in TiCDC's form, with one row per message.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import orjson

from ticdc_assets.protocols.canal_json.grammar import HEAD, SOURCE, row_form
from ticdc_assets.protocols.canal_json.messages import CanalJsonOptions, column
from ticdc_assets.protocols.columnar.json_messages import RowGrammar
from ticdc_assets.protocols.columnar.message_rows import Bulk
from ticdc_assets.protocols.columnar.scanned_rows import COMMIT_TS
from ticdc_assets.protocols.formats.json.texts import ScannedTexts
from ticdc_assets.protocols.formats.string_arrays import Mask


def _columns(text: bytes) -> tuple[str, ...]:
    """The column names of the row in a text; empty if it has no row."""
    try:
        return tuple(orjson.loads(text)["data"][0].keys())
    except (orjson.JSONDecodeError, LookupError, TypeError, AttributeError):
        return ()


def _is_sound(found: ScannedTexts, options: CanalJsonOptions) -> Mask:
    """The rows with a commit_ts if all rows must have one, else all rows."""
    return np.asarray(found.numbers[:, COMMIT_TS] >= (0 if options.is_dated else -1))


_GRAMMAR: Final = RowGrammar(row_form(), HEAD, SOURCE, _columns, _is_sound)
BULK: Final = Bulk(_GRAMMAR.heads, _GRAMMAR.rows, column)
