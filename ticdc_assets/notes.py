"""Why a table is held, and the warnings about it: each a code, what was found, and what to do.

No code reads the text. Users alert on the codes, so a code keeps its meaning; docs/bad-input.md has the remedy of each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from ticdc_assets.advice import Advice
from ticdc_assets.errors import TicdcAssetsError


class NoteCode(StrEnum):
    """What a note of a table is about. The table is held, unless the code is one of `WARNINGS`."""

    INPUT = "input"
    MESSAGES = "messages"
    NO_SCHEMA = "no_schema"
    NO_STATEMENTS = "no_statements"
    STATEMENT = "statement"
    LATE_STATEMENT = "late_statement"
    SETTINGS = "settings"
    KEYS = "keys"
    REPLACED = "replaced"
    PASSED_UNREAD = "passed_unread"
    NOT_LOADED = "not_loaded"
    NOT_SELECTED = "not_selected"
    NAME_TAKEN = "name_taken"
    CHANGELOG = "changelog"
    SET_BACK = "set_back"
    MIRROR = "mirror"
    UNKNOWN = "unknown"
    SCHEMA_CHECKSUM = "schema_checksum"
    MISPLACED_ROWS = "misplaced_rows"
    COLUMNS = "columns"
    DEFAULT_ZONE = "default_zone"
    QUARANTINE = "quarantine"
    DISCARDED = "discarded"


WARNINGS: Final = frozenset({
    NoteCode.SCHEMA_CHECKSUM, NoteCode.MISPLACED_ROWS, NoteCode.COLUMNS, NoteCode.DEFAULT_ZONE, NoteCode.QUARANTINE,
    NoteCode.DISCARDED,
})  # fmt: skip
"""The codes of notes that hold no table."""

UNFIT_CHANGELOGS: Final = frozenset({NoteCode.LATE_STATEMENT, NoteCode.SETTINGS, NoteCode.KEYS})
"""The codes of tables whose changelogs have to be read again, or wait for the config, as their mirrors do."""

LAKE_FAULTS: Final = frozenset({NoteCode.SET_BACK, NoteCode.MIRROR})
"""The codes of faults that a look at the lake's tables finds, and finds gone."""

_TITLES: Final[Mapping[str, str]] = {
    NoteCode.MESSAGES: "messages: ",
    NoteCode.LATE_STATEMENT: "written without a statement: ",
    NoteCode.SETTINGS: "settings: ",
    NoteCode.KEYS: "keys: ",
    NoteCode.REPLACED: "replaced: ",
    NoteCode.PASSED_UNREAD: "passed unread: ",
    NoteCode.MIRROR: "its mirror: ",
}
_BETWEEN: Final = "; "
_LEGACY_WARNINGS: Final = {
    "not the checksum of its name": NoteCode.SCHEMA_CHECKSUM,
    "deleted. Compare it with TiDB": NoteCode.MISPLACED_ROWS,
}


@dataclass(frozen=True, slots=True)
class Note:
    """One reason or warning. `code` is a `NoteCode`, or the code of a newer version. `detail` says where, and what was
    expected and found."""

    code: str
    detail: str
    advice: tuple[Advice, ...] = ()

    @classmethod
    def of(cls, code: NoteCode, error: TicdcAssetsError, where: str = "") -> Note:
        """The note of an error, with `where` before its own place. Advice that only this error has stays in the
        detail."""
        before = f"{where}: " if where else ""
        if isinstance(error.advice, Advice):
            return cls(code, f"{before}{error.finding}", (error.advice,))
        return cls(code, f"{before}{error}")

    @property
    def is_warning(self) -> bool:
        """Whether the table goes on in spite of it."""
        return self.code in WARNINGS

    def as_object(self) -> dict[str, Any]:
        """The note for programs."""
        return {"code": str(self.code), "detail": self.detail, "advice": [one.code for one in self.advice]}

    def text(self, table: str) -> str:
        """The note for people, about the table of this name."""
        advice = " ".join(one.of(table) for one in self.advice)
        return f"{self.detail.removesuffix('.')}. {advice}" if advice else self.detail


def shown(notes: Iterable[Note], table: str) -> str:
    """The notes of a table as one text for people."""
    return _BETWEEN.join(_TITLES.get(note.code, "") + note.text(table) for note in notes)


def of_codes(notes: Iterable[Note], *codes: NoteCode) -> tuple[Note, ...]:
    """The notes with one of these codes."""
    return tuple(note for note in notes if note.code in codes)


def from_text(text: str, *, is_held: bool) -> tuple[Note, ...]:
    """The notes in a record of a version that stored only their text."""
    reason, fault_title, fault = text.partition(_TITLES[NoteCode.MIRROR])
    parts = reason.removesuffix(_BETWEEN).split(_BETWEEN)
    ends = {part: code for part in parts for end, code in _LEGACY_WARNINGS.items() if part.endswith(end)}
    rest = _BETWEEN.join(part for part in parts if part not in ends)
    titled = next(((code, title) for code, title in _TITLES.items() if rest.startswith(title)), None)
    code, title = titled or (NoteCode.UNKNOWN if is_held and not fault_title else NoteCode.COLUMNS, "")
    notes = [Note(code, rest.removeprefix(title))] if rest else []
    notes += [Note(code, part) for part, code in ends.items()]
    return (*notes, *([Note(NoteCode.MIRROR, fault)] if fault_title else []))
