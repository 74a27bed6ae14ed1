"""Opens files that Dumpling has compressed: gzip, Zstandard, and Snappy's framing format."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePath
from typing import Any, BinaryIO, Final

import pyarrow as pa

from ticdc_assets.errors import SourceError
from ticdc_assets.sources.filesystem import Root

SUFFIXES: Final[dict[str, str | None]] = {"": None, ".gz": "gzip", ".zst": "zstd", ".snappy": "snappy"}
"""The codec by the end of a file's name."""

_STREAM_IDENTIFIER, _COMPRESSED, _UNCOMPRESSED, _FIRST_SKIPPABLE = 0xFF, 0x00, 0x01, 0x80
_CHECKSUM_BYTES: Final = 4


def opened(file: BinaryIO, path: str) -> Any:
    """The uncompressed bytes of an open file, whose name gives the codec; a context manager with `read` and `readinto`.

    Reading raises OSError or ArrowException where the bytes are damaged.
    """
    codec = SUFFIXES.get(PurePath(path).suffix)
    if codec == "snappy":
        return io.BufferedReader(_SnappyFrames(file))
    return file if codec is None else pa.CompressedInputStream(pa.PythonFile(file, "r"), codec)


@contextmanager
def opened_in(root: Root, path: str, size_bytes: int) -> Iterator[Any]:
    """The uncompressed content of a file, fetched where it is not local. Raises SourceError where it is damaged, or has
    another size than when it was listed."""
    with ExitStack() as stack:
        local = root.local_path(path)
        if local is None:
            local = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "file"
            root.fetch_to(path, local)
        try:
            stream = stack.enter_context(local.open("rb"))
            if local.stat().st_size != size_bytes:
                raise SourceError(path, f"{size_bytes} bytes, as it was listed", "another size", "Load again.")
            yield stack.enter_context(opened(stream, path))
        except (OSError, EOFError, pa.ArrowException) as error:
            advice = "Export the table again."
            raise SourceError(path, "a file that can be read", type(error).__name__, advice) from None


class _SnappyFrames(io.RawIOBase):
    """The content of Snappy's framing format (google/snappy, framing_format.txt). Checksums are not compared: the
    blocks are checked by their own form and length."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._codec = pa.Codec("snappy")
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        """True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer from the current block; 0 at the end of the file."""
        while not len(self._rest):
            block = self._block()
            if block is None:
                return 0
            self._rest = memoryview(block)
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def _block(self) -> bytes | None:
        head = self._file.read(4)
        if not head:
            return None
        kind, size = head[0], int.from_bytes(head[1:], "little")
        body = self._file.read(size)
        if len(head) < 4 or len(body) < size:
            raise OSError("a block that is cut off")
        if kind == _COMPRESSED:
            packed = body[_CHECKSUM_BYTES:]
            return bytes(self._codec.decompress(packed, decompressed_size=_length(packed)))
        if kind == _UNCOMPRESSED:
            return body[_CHECKSUM_BYTES:]
        if kind == _STREAM_IDENTIFIER or kind >= _FIRST_SKIPPABLE:
            return b""
        raise OSError("a block of an unknown kind")


def _length(packed: bytes) -> int:
    """The uncompressed length at the beginning of a block, as a varint."""
    length = 0
    for place, byte in enumerate(packed[:5]):
        length |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return length
    raise OSError("a block without a length")
