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
        return printable(f"{self.where}: expected {self.expected}, found {self.found}. {self.advice}")


LOAD_AGAIN: Final = (
    "TiCDC sends no rows for it. At the source, copy the rows to another table, TRUNCATE the table and insert them "
    "again; then `ticdc-assets rebuild` with its --table begins its mirror with that TRUNCATE."
)
"""What to do if a mirror cannot be continued from its rows."""

LOST_STATEMENT: Final = "A statement is missing: if the source of the messages still has it, restore its message."
"""What to do if rows have columns that no statement explains."""

LEFT_OUT: Final = "If the changefeed leaves it out, give its `column-selectors` in the configuration here."
"""What to do first if rows lack a column of their table."""

DISPLACED: Final = (
    "expected a table of that name at the row, found that it was renamed or dropped before: the row was sent again, "
    "after the statement, or a statement is missing"
)
"""Why a table stops at a row whose name it had before."""

RESTORE_SCHEMAS: Final = (
    "If schema files were removed from the bucket, restore them; if the rows may be lost, name the file in skip_files."
)
"""What to do if the rows of a file are not of the table and columns that the schema files of the bucket give."""

CREATE_AGAIN: Final = (
    "To continue, copy it from TiDB: `ticdc-assets resync` with its name, where `upstream` is set. Or create the table "
    "again at the source: CREATE TABLE under another name with all its columns (not "
    "LIKE), copy the rows, and give it the name: RENAME TABLE t TO t_old, t_new TO t. The new table is complete here; "
    "what changed between the stop and the copy is in no changelog."
)
"""What to do if a table stopped at a statement: nothing that is configured here determines the rows after it."""


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
