"""The files next to a capture: the registry's schemas for the Avro protocol, and the files of large messages."""

from __future__ import annotations

from pathlib import Path
from stat import S_ISREG
from typing import Final

from ticdc_assets.errors import DecodeError
from ticdc_assets.protocols.avro.decoder import registry_from_json
from ticdc_assets.protocols.formats.frames.bodies import json_object
from ticdc_assets.sources.inspection.report import Inspection

REGISTRY: Final = "registry.json"
REGISTRY_BYTES_MAX: Final = 256 << 20
CLAIM_BYTES_MAX: Final = 64 << 20


def registry_of(found: Inspection, folder: Path) -> dict[int, str]:
    """The registry's schemas by id; a missing or unreadable file is reported as a problem."""
    path = folder / REGISTRY
    advice = "Export the schema registry there: a JSON list of {id, subject, version, schema}."
    if not path.is_file():
        found.problem(str(path), "the registered schemas of the Avro protocol", "no such file", advice)
        return {}
    if path.stat().st_size > REGISTRY_BYTES_MAX:
        found.problem(str(path), f"at most {REGISTRY_BYTES_MAX} bytes", "more", advice)
        return {}
    try:
        return registry_from_json(path.read_bytes(), str(path))
    except DecodeError as error:
        found.problem(str(path), error.expected, error.found, advice)
        return {}


class ClaimFolder:
    """The claim-check folder; `raw` is whether its files are bare values, None before the first file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.raw: bool | None = None

    def check(self, found: Inspection, name: str, where: str) -> None:
        """Report a problem if a file that a message names is missing."""
        size = self._size(name)
        if size is None:
            advice = f"Copy the changefeed's claim-check storage to {self.path}, or name it as `claim_check`."
            found.problem(where, "the file of a large message", "no such file next to the capture", advice)
        elif self.raw is None and size <= CLAIM_BYTES_MAX:
            self.raw = _is_raw((self.path / name).read_bytes())

    def _size(self, name: str) -> int | None:
        """The file's size; None if it is missing, whatever its name is."""
        try:
            status = (self.path / name).stat()
        except (OSError, ValueError):
            return None
        return status.st_size if S_ISREG(status.st_mode) else None


def _is_raw(data: bytes) -> bool | None:
    try:
        fields = json_object(data, "")
    except DecodeError:
        return True  # a bare value that is compressed or Avro
    return not (isinstance(fields.get("value"), str) and set(fields) <= {"key", "value"})
