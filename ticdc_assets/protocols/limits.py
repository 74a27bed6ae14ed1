"""How large a thing may be before it is refused: every bound of the decoders, with its reason (guarantee G7)."""

from __future__ import annotations

from typing import Final

MESSAGE_BYTES_MAX: Final = 512 << 20
"""One Kafka message or claim-check file: four times TiDB's largest row entry (120 MiB), for JSON's escapes."""

RECORD_BYTES_MAX: Final = 512 << 20
"""One record of a storage file: TiCDC's largest file-size; a record cannot outgrow a file."""

BATCH_BYTES: Final = 8 << 20
"""What a bulk decoder reads of a file at a time: some ten thousand rows, so that memory stays flat."""

CSV_HEADER_BYTES_MAX: Final = 2 << 20
"""The header line of a CSV file: twice what 4096 column names of 64 four-byte characters need."""

COLUMNS_MAX: Final = 4096
"""TiDB's own bound on the columns of a table (table-column-count-limit)."""

ROWS_PER_MESSAGE_MAX: Final = 65_536
"""Rows in one official Canal message; TiCDC always writes one."""
