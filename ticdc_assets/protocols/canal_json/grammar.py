"""The form in which TiCDC writes a Canal-JSON row change, in messages and files, and the slots of its parts."""

from __future__ import annotations

from typing import Final

from ticdc_assets.protocols.canal_json.decoder import OPS
from ticdc_assets.protocols.columnar.scanned_rows import COMMIT_MS, COMMIT_TS, HAS_OLD, NEW, OLD, OP, SCHEMA, TABLE
from ticdc_assets.protocols.formats.json.template import (
    CODES,
    STRINGS,
    STRINGS_OR_NULLS,
    JsonTemplate,
    Steps,
    constant,
    either,
    image,
    literal,
    maybe,
    members,
    number,
    rest,
    text,
    texts,
)
from ticdc_assets.tso import INT64_MAX

_MS_MAX: Final = INT64_MAX >> 18
_KINDS: Final = [(f'{kind}"'.encode(), constant(OP, ord(op))) for kind, op in OPS.items()]
_EXTENSION: Final[Steps] = (*number(COMMIT_TS), *maybe(b',"rowkey":', text()), *literal(b"}"))
# Canal writes other ids.
_SOURCE: Final[Steps] = (*literal(b'{"id":0,"database":'), *text(SCHEMA), *literal(b',"table":'), *text(TABLE))


def _row(old: Steps, new: Steps, end: Steps) -> JsonTemplate:
    """A whole row change, followed by `end`.

    The types must be well-formed although they are not kept, since no other code checks them.
    """
    return JsonTemplate(
        (
            *_SOURCE,
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
            *members(CODES),
            *literal(b',"mysqlType":'),
            *members(STRINGS),
            *literal(b',"old":'),
            *either(
                [
                    (b"null", constant(HAS_OLD, 0)),
                    (b"[", (*old, *literal(b"]"), *constant(HAS_OLD, 1))),
                ]
            ),
            *literal(b',"data":['),
            *new,
            *literal(b"]"),
            *constant(COMMIT_TS, -1),
            *maybe(b',"_tidb":{"commitTs":', _EXTENSION),
            *literal(b"}"),
            *end,
        )
    )


def row_form(end: Steps = ()) -> JsonTemplate:
    """A row change with its values."""
    return _row(image(OLD, may_be_empty=True), image(NEW), end)


HEAD: Final = _row(members(STRINGS_OR_NULLS, may_be_empty=True), members(STRINGS_OR_NULLS), ())
"""A row change without its values."""
SOURCE: Final = JsonTemplate((*_SOURCE, *rest()))
"""The beginning of a row change, up to the names of its table."""
