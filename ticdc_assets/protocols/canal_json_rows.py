"""TiCDC's own form of a Canal-JSON row change in files, and what is kept of it; `canal_json_form` is for messages."""

from __future__ import annotations

from typing import Final

from ticdc_assets.protocols.canal_json import OPS
from ticdc_assets.protocols.json_forms import (
    Form,
    Piece,
    either,
    image,
    literal,
    maybe,
    members_of_codes,
    members_of_texts,
    number,
    text,
    texts,
    told,
)
from ticdc_assets.tso import INT64_MAX

OP, COMMIT_MS, COMMIT_TS, HAS_OLD = range(4)
"""The numbers of a row: the code of I, U or D; -1 where it has no commit_ts; 0 or 1."""
SCHEMA, TABLE = range(2)
"""The strings of a row."""
NEW, OLD = range(2)
"""The images of a row."""

_MS_MAX: Final = INT64_MAX >> 18
_KINDS: Final = [(f'{kind}"'.encode(), told(OP, ord(op))) for kind, op in OPS.items()]
_EXTENSION: Final[Piece] = (*number(COMMIT_TS), *maybe(b',"rowkey":', text()), *literal(b"}"))


def row_form(end: Piece) -> Form:
    """One row change, whole, and what is behind its last brace.

    The types, of which nothing is kept, must be as well-formed as the rest: nobody reads them afterwards.
    """
    return Form(
        (
            *literal(b'{"id":'),
            *number(),
            *literal(b',"database":'),
            *text(SCHEMA),
            *literal(b',"table":'),
            *text(TABLE),
            *literal(b',"pkNames":'),
            *either([(b"null", ())], texts()),
            *literal(b',"isDdl":false,"type":"'),
            *either(_KINDS),
            *literal(b',"es":'),
            *number(COMMIT_MS, _MS_MAX),
            *literal(b',"ts":'),
            *number(),
            *literal(b',"sql":'),
            *text(),
            *literal(b',"sqlType":'),
            *members_of_codes(),
            *literal(b',"mysqlType":'),
            *members_of_texts(),
            *literal(b',"old":'),
            *either(
                [
                    (b"null", told(HAS_OLD, 0)),
                    (b"[", (*image(OLD, may_be_empty=True), *literal(b"]"), *told(HAS_OLD, 1))),
                ]
            ),
            *literal(b',"data":['),
            *image(NEW),
            *literal(b"]"),
            *told(COMMIT_TS, -1),
            *maybe(b',"_tidb":{"commitTs":', _EXTENSION),
            *literal(b"}"),
            *end,
        )
    )
