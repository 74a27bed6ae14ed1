"""The result of a scan of a bucket, for each table: the files to read, the new schemas, and why it is held.

The next cursor follows from it and from the files that a run consumed (`sources.storage.cursor`). No I/O happens here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ticdc_assets.errors import NotYetError, TicdcAssetsError
from ticdc_assets.notes import Note, NoteCode
from ticdc_assets.protocols.storage.schema_file import SchemaFile
from ticdc_assets.sources.storage.paths import Layout, SourceFile

Place = tuple[str, str | None]
"""A sequence of file numbers: a data folder below the version's, and the dispatcher if names have one."""


class ProblemKind(StrEnum):
    """Whether a table waits, and may continue without action, or is stopped until a user acts."""

    WAITING = "waiting"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Problem:
    """An error that holds one table; the others continue. `table` is "" for statements of a database."""

    error: TicdcAssetsError
    schema: str
    table: str

    @property
    def kind(self) -> ProblemKind:
        """The table waits after NotYetError and stops after any other."""
        return ProblemKind.WAITING if isinstance(self.error, NotYetError) else ProblemKind.STOPPED

    @property
    def note(self) -> Note:
        """The note of a table that it holds."""
        return Note.of(NoteCode.INPUT, self.error)

    @property
    def sentence(self) -> str:
        """The problem for people."""
        return str(self.error)


@dataclass(frozen=True, slots=True)
class Done:
    """The last file of a folder up to which all files are fully consumed."""

    number: int
    size: int


@dataclass(frozen=True, slots=True)
class FolderScan:
    """The files that a scan found in one sequence: those after `done` up to `last`, without gaps.

    Files up to `seen` were read by an earlier run, which left some of their rows for later. `are_listed` is whether the
    last file is known only from a listing and not from an index: more files may follow, as in a bucket that is being
    copied. `named` is the number in the index.
    """

    place: Place
    partition: str
    date: str
    done: Done
    last: int
    files: tuple[SourceFile, ...] = ()
    skipped: Mapping[int, int] = field(default_factory=dict)
    seen: Done = Done(0, 0)
    are_listed: bool = False
    named: int | None = None

    def is_seen(self, file: SourceFile) -> bool:
        """Whether an earlier run has read the file in its current size."""
        return file.number < self.seen.number or (file.number, file.size) == (self.seen.number, self.seen.size)

    def after(self, consumed: Collection[str]) -> Done:
        """The last file up to which everything is consumed, or skipped by the user's config."""
        by_number = {file.number: file for file in self.files}
        done = self.done
        for number in range(done.number + 1, self.last + 1):
            file = by_number.get(number)
            if file is None:
                done = Done(number, self.skipped.get(number, 0))
            elif file.path in consumed:
                done = Done(number, file.size)
            else:
                break
        return done

    def is_complete(self, consumed: Collection[str]) -> bool:
        """Whether everything found is consumed and no more files will come.

        For listed files, that is only known after a scan without new ones.
        """
        return self.after(consumed).number >= self.last and not (self.are_listed and self.files)

    @property
    def has_grown(self) -> bool:
        """Whether there are files that no run has read: in a bucket that is being copied, more may follow."""
        return any(not self.is_seen(file) for file in self.files)


@dataclass(frozen=True, slots=True)
class TableScan:
    """The result of a scan for one table folder. With `problems` it has no files and the cursor does not move."""

    folder: str
    schema: str
    table: str
    schema_files: tuple[SchemaFile, ...] = ()
    checksums: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    versions: Mapping[int, tuple[FolderScan, ...]] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def data(self) -> Iterable[SourceFile]:
        """The files to read."""
        return (file for folders in self.versions.values() for folder in folders for file in folder.files)

    @property
    def seen(self) -> Iterable[SourceFile]:
        """Those of the files to read that an earlier run has read in part."""
        return (
            f for folders in self.versions.values() for folder in folders for f in folder.files if folder.is_seen(f)
        )

    @property
    def names(self) -> set[tuple[str, str]]:
        """Every schema and table whose rows or statements are in this folder."""
        files = {(file.schema, file.table) for file in self.data}
        return {(self.schema, self.table)} | files | {(file.schema, file.table) for file in self.schema_files}


@dataclass(frozen=True, slots=True)
class Scan:
    """The content of the bucket after a cursor, up to `checkpoint_ts`; files may also hold later rows.

    `checkpoint_ts` None means that TiCDC has published no checkpoint yet, and nothing else was read. `schema_files` are
    sorted by version, `data` in the order of consumption; `notes` name files that are not TiCDC's. `recognises_repeats`
    is whether late files of older versions can be read like any others.
    """

    checkpoint_ts: int | None
    layout: Layout
    tables: tuple[TableScan, ...] = ()
    notes: tuple[str, ...] = ()
    recognises_repeats: bool = False

    @property
    def schema_files(self) -> tuple[SchemaFile, ...]:
        """Schema files that the cursor has not passed; those of held tables are delivered again by later scans."""
        files = (file for table in self.tables for file in table.schema_files)
        return tuple(sorted(files, key=lambda file: (file.version, file.where)))

    @property
    def data(self) -> tuple[SourceFile, ...]:
        """Files to read: new ones, and those that an earlier run could only consume in part."""
        return tuple(sorted((file for table in self.tables for file in table.data), key=lambda file: file.order))

    @property
    def seen(self) -> frozenset[str]:
        """The paths of the files that an earlier run has read in part."""
        return frozenset(file.path for table in self.tables for file in table.seen)

    @property
    def unseen(self) -> Iterable[SourceFile]:
        """The files that no run has read."""
        seen = self.seen
        return (file for table in self.tables for file in table.data if file.path not in seen)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Why tables are held, in the order of their folders."""
        return tuple(problem for table in self.tables for problem in table.problems)
