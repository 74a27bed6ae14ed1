"""The errors of this project: one class for each decision of a caller.

Every message says where the fault is, what was expected, what was found and what to do next. It never contains row
values or credentials (guarantee G8). Errors cross process borders (Spark workers, Dagster steps), so each keeps its
parts in `args`, which pickle unchanged.
"""

from __future__ import annotations

from typing import Final

from ticdc_assets.printable import printable


class TicdcAssetsError(Exception):
    """Base class of all errors of this project; `where`, `expected`, `found`, `advice` are the parts of the message."""

    def __init__(self, where: str, expected: str, found: str, advice: str) -> None:
        super().__init__(where, expected, found, advice)
        self.where = where
        self.expected = expected
        self.found = found
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.finding} {printable(self.advice)}"

    @property
    def finding(self) -> str:
        """The message without the advice."""
        return printable(f"{self.where}: expected {self.expected}, found {self.found}.")


DISPLACED: Final = (
    "expected a table of that name at the row, found that it was renamed or dropped before: the row was sent again, "
    "after the statement, or a statement is missing"
)
"""Why a table stops at a row whose name it had before."""


def rebuild_command(table: str, origin: str = "changelog") -> str:
    """The command that rebuilds a table."""
    return f"`ticdc-assets rebuild --table {table}{'' if origin == 'changelog' else f' --from {origin}'}`"


class ConfigError(TicdcAssetsError):
    """The user's config or command line is invalid; nothing was read or written."""


class ConfigFaultsError(ConfigError):
    """A config has several faults; each is a line of the message."""

    def __init__(self, where: str, expected: str, found: str, advice: str, *faults: str) -> None:
        super().__init__(where, expected, found, advice)
        self.args = (*self.args, *faults)

    def __str__(self) -> str:
        return "\n- ".join([super().__str__(), *map(printable, self.args[4:])])


class OtherTableError(ConfigError):
    """The name of a table of the lake belongs to another table."""


class DecodeError(TicdcAssetsError):
    """The bytes of a message violate their protocol; the message can be quarantined."""


class SchemaError(TicdcAssetsError):
    """The columns of a table at some TSO cannot be determined; that table stops, the others continue."""


class NotYetError(TicdcAssetsError):
    """Something is not complete yet and may become so without action; that table waits."""


class SourceError(TicdcAssetsError):
    """A source cannot be read as a whole, such as a missing bucket; the changefeed stops."""


class TopicError(SourceError):
    """One topic of a source cannot be read; the other topics can."""


class StaleRunError(TicdcAssetsError):
    """Another run has published first; this run must plan again."""


class MachineError(TicdcAssetsError):
    """The machine lacks a requirement, such as Java; the sentence says what to install."""


class EngineError(TicdcAssetsError):
    """Spark has ended, or does not answer, while it starts; another start may succeed."""


class LakeError(TicdcAssetsError):
    """The lake cannot be read or written; no partial result is visible."""


class SetBackError(TicdcAssetsError):
    """A table of the lake is older than its record says; that table is held, the others continue."""


class UnexpectedError(TicdcAssetsError):
    """Replaces an unknown error of a library, whose message may quote rows."""
