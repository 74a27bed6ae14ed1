"""Names of source tables and columns as Iceberg, Spark, Dagster and file systems accept them.

The input is any MySQL name: Unicode, quotes, dots, slashes, line breaks. The output is an identifier that is valid in
every catalog and path. Different names have different identifiers, and `decode` restores the name unless it was too
long. Letters, digits, `_` and `-` are kept; any other character becomes `_x<hex>_`, so `a.b` is `a_x2e_b`. Upper case
is kept too: SQL, REST and file catalogs distinguish names by case, but Hive and Glue do not. For those,
`portable=True` encodes upper case and `-` as well.
"""

from __future__ import annotations

from ticdc_assets.names.encoding import (
    ENCODED_BYTES_MAX,
    OP_NAME_CHARS_MAX,
    OWN_PREFIX,
    asset_key_part,
    column_name,
    decode,
    encode,
    op_name,
    source_column_name,
)
from ticdc_assets.names.identifiers import (
    FIELDS,
    IdentifierTemplates,
    changelog_identifier,
    check_target,
    check_view,
    control_namespace,
    mirror_identifier,
    quote,
    quote_path,
    view_identifier,
)

__all__ = [
    "ENCODED_BYTES_MAX",
    "FIELDS",
    "OP_NAME_CHARS_MAX",
    "OWN_PREFIX",
    "IdentifierTemplates",
    "asset_key_part",
    "changelog_identifier",
    "check_target",
    "check_view",
    "column_name",
    "control_namespace",
    "decode",
    "encode",
    "mirror_identifier",
    "op_name",
    "quote",
    "quote_path",
    "source_column_name",
    "view_identifier",
]
