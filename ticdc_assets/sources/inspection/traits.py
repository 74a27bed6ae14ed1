"""Where inspected messages come from, what their events show of the changefeed's options, and what is missing to read
all rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ticdc_assets.names.folding import fold
from ticdc_assets.protocols.events import Op, RowEvent
from ticdc_assets.protocols.values.checksum import ChecksummedRow
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.sources.capture import Message
from ticdc_assets.sources.inspection.report import NAMES_MAX, Inspection
from ticdc_assets.sources.kafka.ranges import OffsetRange

KEYS_MAX: Final = 100_000
"""Row keys that are kept, as hashes, to detect repeated inserts."""

_Version = tuple[str, str, int]


@dataclass(slots=True)
class SchemasSeen:
    """The schemas that a stream has and those that its rows need, in bounded memory.

    declared: the versions that statements and schemas bring.
    needed: the versions that rows name, each with the position of the first row and the number of rows.
    named: the tables that statements and schemas name, in lower case.
    """

    declared: set[_Version] = field(default_factory=set)
    needed: dict[_Version, tuple[str, int]] = field(default_factory=dict)
    named: set[tuple[str, str]] = field(default_factory=set)

    def add(self, event: DdlEvent) -> None:
        """Add a statement or a schema."""
        if event.hints.version is not None and len(self.declared) < KEYS_MAX:
            self.declared.add((event.schema, event.table, event.hints.version))
        if event.before is not None and event.hints.before_version is not None and len(self.declared) < KEYS_MAX:
            self.declared.add((event.before.schema, event.before.name, event.hints.before_version))
        if event.table and len(self.named) < NAMES_MAX:
            self.named.add((fold(event.schema), fold(event.table)))

    def need(self, version: _Version, where: str) -> None:
        """Add a row of this version."""
        first, count = self.needed.get(version, (where, 0))
        if version in self.needed or len(self.needed) < NAMES_MAX:
            self.needed[version] = (first, count + 1)


@dataclass(slots=True)
class Traits:
    """Collects facts row by row, in bounded memory."""

    rows: int = 0
    old_values: int = 0
    partial_old_values: int = 0
    with_commit_ts: int = 0
    checksums: int = 0
    claims: int = 0
    cut: int = 0
    first_cut: str = ""
    zones: Counter[str] = field(default_factory=Counter)
    schemas: SchemasSeen = field(default_factory=SchemasSeen)
    _alive: dict[int, int | None] = field(default_factory=dict)
    inserted_twice: int = 0

    def row(self, event: RowEvent, where: str) -> None:
        """Add one row change."""
        self.rows += 1
        self.old_values += event.before is not None
        self.partial_old_values += event.before_is_partial
        self.with_commit_ts += event.commit_ts is not None
        self.checksums += isinstance(event, ChecksummedRow)
        self.claims += event.claim is not None
        if event.handle_only and event.claim is None and event.op is not Op.DELETE:
            self.cut += 1
            self.first_cut = self.first_cut or where
        if event.hints.schema_version is not None:
            self.schemas.need((event.schema, event.table, event.hints.schema_version), where)
        self._zone(event)
        if not self.old_values:
            self._repeated_insert(event)

    def schema(self, event: DdlEvent) -> None:
        """Add a statement or a schema."""
        self.schemas.add(event)
        self._alive.clear()  # after TRUNCATE or a new CREATE TABLE the old keys may be inserted again

    def _zone(self, event: RowEvent) -> None:
        for wire in event.wire.values():
            if isinstance(wire, dict) and isinstance(zone := wire.get("location"), str):
                self.zones[zone] += 1
                return

    def _repeated_insert(self, event: RowEvent) -> None:
        """Detect the insert of an existing key: then inserts and updates look alike."""
        if not event.hints.key:
            return
        identity = hash((event.schema, event.table, *(repr(event.wire.get(name)) for name in event.hints.key)))
        if event.op is Op.DELETE:
            self._alive.pop(identity, None)
            return
        before = self._alive.get(identity)
        self.inserted_twice += before is not None and before != event.commit_ts
        if identity in self._alive or len(self._alive) < KEYS_MAX:
            self._alive[identity] = event.commit_ts

    # -- in words -----------------------------------------------------------------------------------------------------

    def add_to(self, found: Inspection, protocol: str) -> None:
        """Add problems, which need action, and notes to the report."""
        if self.cut:
            expected, cut = "whole rows", f"{self.cut:,} rows of which only the handle key was sent"
            advice = "Name TiDB as `upstream` to complete them from; or use claim-check, and send those tables again."
            found.problem(self.first_cut, expected, cut, advice)
        if protocol == "simple":
            self._missing_versions(found)
        elif protocol != "avro":
            self._undeclared_tables(found, protocol)
        if protocol == "open-protocol" and self.no_old_values:
            for table in found.tables.values():
                table.counts.upserts += table.counts.inserts
                table.counts.inserts = 0

    @property
    def no_old_values(self) -> bool:
        """Whether the stream has no old values, as far as it shows."""
        return not self.old_values and self.inserted_twice > 0

    def _missing_versions(self, found: Inspection) -> None:
        for (schema, table, version), (where, count) in self.schemas.needed.items():
            if (schema, table, version) not in self.schemas.declared:
                expected = f"the schema of {schema}.{table}, version {version}"
                missing = f"none for {count:,} rows of it"
                advice = (
                    "A BOOTSTRAP or DDL message brings it: continue the capture, or add the table to `schema_files`."
                )
                found.problem(where, expected, missing, advice)

    def _undeclared_tables(self, found: Inspection, protocol: str) -> None:
        names = [(t.schema, t.table) for t in found.tables.values() if t.counts.rows]
        undeclared = sorted(f"{s}.{t}" for s, t in names if (fold(s), fold(t)) not in self.schemas.named)
        if undeclared:
            listed = ", ".join(undeclared[:5]) + (" ..." if len(undeclared) > 5 else "")
            guess = "" if protocol == "debezium" else "; without it, their types are guessed from rows"
            found.note(f"No statement creates {listed}: give their CREATE TABLE in `schema_files`{guess}.")


def options_seen(traits: Traits, protocol: str) -> dict[str, Any]:
    """The options that rows show, under TiCDC's names."""
    seen: dict[str, Any] = {}
    if traits.partial_old_values:
        seen["only-output-updated-columns"] = True
    if protocol == "open-protocol" and traits.no_old_values:
        seen["open.output-old-value"] = False
    if traits.checksums:
        seen["integrity-check-level"] = "correctness"
    if traits.claims:
        seen["large-message-handle-option"] = "claim-check"
    elif traits.cut:
        seen["large-message-handle-option"] = "handle-key-only"
    return seen


@dataclass(frozen=True, slots=True)
class MessageOrigin:
    """Messages in parts: files or partitions. Each call of a part reads it from its first message.

    `folder` holds the sidecars of a capture. `ranges`, `sink_uri` (without its query), `has_login` and `schemas` (of
    the schema registry, by id; None where none is named) are those of Kafka.
    """

    place: str
    parts: Sequence[Callable[[], Iterator[Message]]]
    folder: Path | None = None
    ranges: Sequence[OffsetRange] = ()
    sink_uri: str = ""
    has_login: bool = False
    schemas: dict[int, str] | None = field(default=None, repr=False)

    @property
    def kind(self) -> str:
        """The kind of source in the report."""
        return "kafka" if self.folder is None else "capture"
