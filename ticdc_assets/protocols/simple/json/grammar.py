"""The JSON form in which TiCDC writes a Simple row without a checksum, and the slots of its parts."""

from __future__ import annotations

from typing import Final

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
