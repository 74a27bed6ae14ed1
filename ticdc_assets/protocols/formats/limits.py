"""Size limits of the decoders, each with its reason (guarantee G7). Larger input is refused."""

from __future__ import annotations

from typing import Final

MESSAGE_BYTES_MAX: Final = 512 << 20
"""One Kafka message or claim-check file: four times TiDB's largest row entry (120 MiB), to allow for JSON escapes."""

RECORD_BYTES_MAX: Final = 512 << 20
"""One record of a storage file: the largest `file-size` of TiCDC, since a record lies in one file."""

BATCH_BYTES: Final = 8 << 20
"""The block size of the bulk decoders for files, about ten thousand rows: it bounds their memory."""

CSV_HEADER_BYTES_MAX: Final = 2 << 20
"""The header line of a CSV file: twice the size of 4096 column names of 64 four-byte characters."""

COLUMNS_MAX: Final = 4096
"""TiDB's limit on the columns of a table (table-column-count-limit)."""

ROWS_PER_MESSAGE_MAX: Final = 65_536
"""Rows in one message of Alibaba's Canal; TiCDC always writes one."""
