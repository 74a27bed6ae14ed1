"""Names of assets and ops in Dagster."""

from __future__ import annotations

import re
from typing import Final

from ticdc_assets.names.encoding import ENCODED_BYTES_MAX, digest_of

OP_NAME_CHARS_MAX: Final = 80
_KEY_DIGEST_CHARS: Final = 10
_OP_DIGEST_CHARS: Final = 8
_KEY_PART: Final = re.compile(r"[A-Za-z0-9]+(_[A-Za-z0-9]+)*")
_DIGESTED_KEY_PART: Final = re.compile(rf"(.*_)?h[0-9a-f]{{{_KEY_DIGEST_CHARS}}}")


def asset_key_part(name: str) -> str:
    """A part of a Dagster asset key. A name that Dagster accepts is kept; any other gets a digest.

    Dagster joins the parts with `__` into the name of an op or output. No part contains `__` or starts or ends with
    `_`, so different keys give different names there.
    """
    if _KEY_PART.fullmatch(name) and not _DIGESTED_KEY_PART.fullmatch(name) and len(name) <= ENCODED_BYTES_MAX:
        return name
    slug = _slug(name)[: ENCODED_BYTES_MAX - _KEY_DIGEST_CHARS - 2].strip("_")
    digest = digest_of(name, _KEY_DIGEST_CHARS)
    return f"{slug}_h{digest}" if slug else f"h{digest}"


def op_name(*parts: str) -> str:
    """The name of a Dagster op, output or check: a readable slug and a digest of eight digits, so that it is unique."""
    ending = f"_{digest_of(chr(0).join(part.replace(chr(0), chr(0) * 2 + '.') for part in parts), _OP_DIGEST_CHARS)}"
    slug = _slug("_".join(parts))[: OP_NAME_CHARS_MAX - len(ending)].strip("_")
    return f"{slug or 'op'}{ending}"


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")
