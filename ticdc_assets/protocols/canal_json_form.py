"""TiCDC's own form of a Canal-JSON row change as an RE2 pattern, for messages; `canal_json_rows` is that of files."""

from __future__ import annotations

from typing import Final

from ticdc_assets.protocols.canal_json import OPS
from ticdc_assets.protocols.json_grammar import COUNT, TEXT, members, up_to
from ticdc_assets.tso import INT64_MAX

_CODE: Final = r"(?:0|-?[1-9][0-9]{0,8})"
_MS: Final = f"(?:0|{up_to(INT64_MAX >> 18)})"


def row_form(text: str, old: str, new: str) -> str:
    """One row change up to its values; `text` matches a string, `old` and `new` an object of column values.

    The types are matched as strictly as JSON is, since nobody reads them afterwards.
    """
    return ",".join(
        (
            r'\{"id":0',  # another is official Canal's
            f'"database":{text}',
            f'"table":{text}',
            rf'"pkNames":(?:null|\[(?:{text}(?:,{text})*)?\])',
            '"isDdl":false',
            f'"type":"(?:{"|".join(OPS)})"',
            f'"es":{_MS}',
            f'"ts":{COUNT}',
            f'"sql":{text}',
            f'"sqlType":{members(_CODE)}',
            f'"mysqlType":{members(TEXT)}',
            rf'"old":(?:null|\[{old}\])',
            rf'"data":\[{new}\]',
        )
    )


def extension_form(text: str) -> str:
    """What follows the values under enable-tidb-extension."""
    return rf',"_tidb":\{{"commitTs":{COUNT}(?:,"rowkey":{text})?\}}'
