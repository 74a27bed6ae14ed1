"""How TiCDC compresses messages, in addition to Kafka's own compression."""

from __future__ import annotations

from enum import StrEnum


class Compression(StrEnum):
    """TiCDC's `large-message-handle-compression`: each body by itself, lz4 as a frame, snappy as a block."""

    NONE = "none"
    LZ4 = "lz4"
    SNAPPY = "snappy"
