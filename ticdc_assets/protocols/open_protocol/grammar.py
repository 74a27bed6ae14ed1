"""The form in which TiCDC writes the key and value of an Open Protocol row, and the slots of their parts."""

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
    TABLE,
)
from ticdc_assets.protocols.formats.json.template import (
    WITH_TYPES,
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
    text,
)

KEY_TS, HAS_PARTITION, PARTITION = range(3)
"""The number slots of a key; its string slots are those of a row."""

KEY: Final = JsonTemplate(
    (
        *literal(b'{"ts":'),
        *number(KEY_TS),
        *literal(b',"scm":'),
        *text(SCHEMA),
        *literal(b',"tbl":'),
        *text(TABLE),
        *maybe(b',"rid":', integer()),
        *constant(HAS_PARTITION, 0),
        *constant(PARTITION, 0),
        *maybe(b',"ptn":', (*integer(PARTITION), *constant(HAS_PARTITION, 1))),
        *literal(b',"t":1'),
        *maybe(b',"ohk":false', ()),
        *maybe(b',"ccl":""', ()),
        *literal(b"}"),
    )
)
"""The key of a row that was sent whole."""


def _row(new: Steps, old: Steps) -> JsonTemplate:
    before = maybe(b',"p":', (*old, *constant(OP, ord("U")), *constant(HAS_OLD, 1)))
    kinds = [
        (b'{"u":', (*constant(OP, ord("I")), *new, *before)),
        (b'{"d":', (*constant(OP, ord("D")), *new)),
    ]
    nothing = (*constant(HAS_OLD, 0), *constant(COMMIT_TS, -1), *constant(COMMIT_MS, -1))
    return JsonTemplate((*nothing, *either(kinds), *literal(b"}")))


ROW: Final = _row(image(NEW, WITH_TYPES), image(OLD, WITH_TYPES))
"""The value of a row with its columns."""
HEAD: Final = _row(members(WITH_TYPES), members(WITH_TYPES))
"""The value of a row without its columns."""
