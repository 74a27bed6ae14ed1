"""What can go wrong, one class for each decision a caller can make.

Every message says where it happened, what was expected, what was found and what to do next, and never holds
row values or credentials (guarantee G8). Errors cross process borders (Spark workers, Dagster steps), so each
keeps its parts in `args` and pickles as it is.
"""

from __future__ import annotations

from typing import Final


class TicdcAssetsError(Exception):
    """Raised for every fault this project knows; `where`, `expected`, `found`, `todo` are its four parts."""

    def __init__(self, where: str, expected: str, found: str, todo: str) -> None:
        super().__init__(where, expected, found, todo)
        self.where = where
        self.expected = expected
        self.found = found
        self.todo = todo

    def __str__(self) -> str:
        return f"{self.where}: expected {self.expected}, found {self.found}. {self.todo}"


LOAD_AGAIN: Final = (
    "TiCDC sends no rows for it. TRUNCATE the table at the source and load its rows again there; then `ticdc-assets "
    "rebuild` with its --table begins its mirror with that TRUNCATE."
)
"""What to do where a mirror cannot go on from the rows that it has."""


def rebuild_command(table: str, origin: str = "changelog") -> str:
    """How the command is written that makes a table anew."""
    return f"`ticdc-assets rebuild --table {table}{'' if origin == 'changelog' else f' --from {origin}'}`"


class ConfigError(TicdcAssetsError):
    """Raised when what the user wrote cannot be meant; nothing was read or written."""


class DecodeError(TicdcAssetsError):
    """Raised when bytes of a message are not what their protocol allows; the message can be quarantined."""


class SchemaError(TicdcAssetsError):
    """Raised when a table's columns at some TSO cannot be known; that table stops, the others go on."""


class NotYetError(TicdcAssetsError):
    """Raised when something is not complete yet and may become so by itself; that table waits."""


class SourceError(TicdcAssetsError):
    """Raised when a source cannot be read as a whole, such as a missing bucket; the changefeed stops."""


class StaleRunError(TicdcAssetsError):
    """Raised when another run has published what this run planned to publish; plan again."""


class MachineError(TicdcAssetsError):
    """Raised when the machine lacks something, such as Java; the sentence says what to install."""


class LakeError(TicdcAssetsError):
    """Raised when the lake or its machine refuses to be read or written; nothing half-done is visible."""


class UnexpectedError(TicdcAssetsError):
    """Raised in place of an error of a library that nobody foresaw, whose own words may quote rows."""
