"""Headers whose names are any bytes, as other clients may write them; Python's client takes only UTF-8."""

from __future__ import annotations

import ctypes
from pathlib import Path

_END, _TOPIC, _PARTITION, _VALUE, _FLAGS, _HEADERS = 0, 1, 3, 4, 7, 10
"""The tags of the arguments of `rd_kafka_producev`."""
_COPY = 2
_TEXT_BYTES, _TIMEOUT_MS = 512, 30_000


def send_with_header(brokers: str, topic: str, value: bytes, name: bytes) -> None:
    """Send a message with one header of this name to the first partition."""
    library = ctypes.CDLL(_loaded_library())
    for made in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_headers_new"):
        getattr(library, made).restype = ctypes.c_void_p
    text, size = ctypes.create_string_buffer(_TEXT_BYTES), ctypes.c_size_t(_TEXT_BYTES)
    settings = ctypes.c_void_p(library.rd_kafka_conf_new())
    library.rd_kafka_conf_set(settings, b"bootstrap.servers", brokers.encode(), text, size)
    producer = ctypes.c_void_p(library.rd_kafka_new(0, settings, text, size))
    headers = ctypes.c_void_p(library.rd_kafka_headers_new(ctypes.c_size_t(1)))
    library.rd_kafka_header_add(headers, name, ctypes.c_ssize_t(len(name)), b"v", ctypes.c_ssize_t(1))
    error = library.rd_kafka_producev(
        producer, _TOPIC, topic.encode(), _PARTITION, ctypes.c_int32(0), _VALUE, value, ctypes.c_size_t(len(value)),
        _FLAGS, _COPY, _HEADERS, headers, _END,
    )  # fmt: skip
    assert error == 0
    assert library.rd_kafka_flush(producer, _TIMEOUT_MS) == 0
    library.rd_kafka_destroy(producer)


def _loaded_library() -> str:
    """The file of the librdkafka that Python's client has loaded."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return next(line.split(maxsplit=5)[-1] for line in lines if "librdkafka" in line)
