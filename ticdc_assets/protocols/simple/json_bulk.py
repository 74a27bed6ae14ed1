"""The bulk decoder of the Simple protocol in JSON.

It decodes whole rows in TiCDC's form without a checksum; rows with a checksum are verified row by row.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from ticdc_assets.protocols.columnar.json_messages import RowGrammar
from ticdc_assets.protocols.columnar.message_rows import Bulk
from ticdc_assets.protocols.columnar.scanned_rows import (
    COMMIT_MS,
    COMMIT_TS,
    HAS_OLD,
    NEW,
    OLD,
    OP,
    SCHEMA,
    SCHEMA_VERSION,
    TABLE,
    TABLE_ID,
)
from ticdc_assets.protocols.formats.json.template import (
    WITH_TIMES,
    JsonTemplate,
    Steps,
    constant,
    either,
    image,
    integer,
    literal,
    maybe,
    members,
    number,
    rest,
    text,
)
from ticdc_assets.protocols.formats.json.texts import ScannedTexts
from ticdc_assets.protocols.formats.string_arrays import Mask
from ticdc_assets.protocols.protocol import DecoderOptions
from ticdc_assets.protocols.values import native_columns

_TABLE: Final[Steps] = (
    *literal(b'{"version":1,"database":'),
    *text(SCHEMA),
    *literal(b',"table":'),
    *text(TABLE),
    *literal(b',"tableID":'),
    *integer(TABLE_ID),
    *literal(b',"type":"'),
)
_TIMES: Final[Steps] = (
    *literal(b',"commitTs":'),
    *number(COMMIT_TS),
    *literal(b',"buildTs":'),
    *number(),
    *literal(b',"schemaVersion":'),
    *number(SCHEMA_VERSION),
)
_SINCE_THE_OP: Final[Steps] = (*constant(COMMIT_MS, -1), *constant(HAS_OLD, 0))


def _row(new: Steps, old: Steps) -> JsonTemplate:
    """A whole row change; a deleted row is in `old`."""
    values = (*literal(b',"data":'), *new, *maybe(b',"old":', (*old, *constant(HAS_OLD, 1))))
    gone = (*literal(b',"old":'), *new)
    kinds = [
        (b'INSERT"', (*constant(OP, ord("I")), *_TIMES, *values)),
        (b'UPDATE"', (*constant(OP, ord("U")), *_TIMES, *values)),
        (b'DELETE"', (*constant(OP, ord("D")), *_TIMES, *gone)),
    ]
    return JsonTemplate((*_TABLE, *_SINCE_THE_OP, *either(kinds), *literal(b"}")))


ROW: Final = _row(image(NEW, WITH_TIMES), image(OLD, WITH_TIMES))
"""A row change with its values."""
HEAD: Final = _row(members(WITH_TIMES), members(WITH_TIMES))
"""A row change without its values."""
SOURCE: Final = JsonTemplate(
    (*_TABLE, *either([(b'INSERT"', ()), (b'UPDATE"', ()), (b'DELETE"', ())]), *_TIMES, *rest())
)
"""The beginning of a row change, up to its table and version."""


def _columns(message: Any) -> Iterable[str]:
    names: Iterable[str] = message["old" if message["type"] == "DELETE" else "data"].keys()
    return names


def _is_sound(found: ScannedTexts, options: DecoderOptions) -> Mask:
    """The rows whose names are not empty and whose commit_ts and schema version are positive."""
    has_names = (found.strings[:, :, 0] != found.strings[:, :, 1]).all(axis=1)
    has_times = (found.numbers[:, [COMMIT_TS, SCHEMA_VERSION]] > 0).all(axis=1)
    return np.asarray(has_names & has_times)


_GRAMMAR: Final = RowGrammar(ROW, HEAD, SOURCE, _columns, _is_sound)
BULK: Final = Bulk(_GRAMMAR.heads, _GRAMMAR.rows, native_columns.column)
