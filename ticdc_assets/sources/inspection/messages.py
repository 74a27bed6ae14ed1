"""A capture of Kafka messages: its protocol by a sample's votes, then every message once through that protocol's
reference decoder.

Files are read as streams. One that is cut or damaged is told with its place, and counts up to there; the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

from ticdc_assets.errors import DecodeError, SchemaError, SourceError
from ticdc_assets.protocols import (
    canal_json_messages,
    confluent_avro,
    debezium,
    detection,
    open_protocol,
    simple,
)
from ticdc_assets.protocols.detection import Form, Votes
from ticdc_assets.protocols.events import DdlEvent, Event, WatermarkEvent
from ticdc_assets.protocols.frame import Compression
from ticdc_assets.protocols.registry import REGISTRY
from ticdc_assets.sources.capture import Message, messages
from ticdc_assets.sources.inspection.beside import ClaimFolder, registry_beside
from ticdc_assets.sources.inspection.report import NAMES_MAX, Bounds, Inspection, PartitionSeen
from ticdc_assets.sources.inspection.settings import message_settings
from ticdc_assets.sources.inspection.traits import Traits

SAMPLE_MESSAGES: Final = 2_000
"""How many messages vote on the protocol; they come from all files."""

SAY_EVERY: Final = 20_000

_TODO_PROTOCOL: Final = (
    "Protocols that are read: open-protocol, simple, canal-json, avro, debezium. Check the changefeed's protocol."
)


def inspect_messages(place: Path, files: Sequence[Path], bounds: Bounds, say: Callable[[str], None]) -> Inspection:
    """What the files of a capture hold. SourceError where not one message is of a known protocol."""
    found = Inspection(str(place), "capture", files=len(files))
    form = _form(found, files)
    if form is None:
        for problem in found.problems.values():
            raise SourceError(problem.where, problem.expected, problem.found, problem.todo)
        seen = f"none of the first {found.messages:,} messages is" if found.messages else "not one message"
        raise SourceError(str(place), "messages of a protocol that TiCDC writes", seen, _TODO_PROTOCOL)
    found.messages, found.problems = 0, {}
    found.protocol = form.protocol
    beside = place if place.is_dir() else place.parent
    _Look(found, form, beside).through(files, bounds, say)
    return found


def _form(found: Inspection, files: Sequence[Path]) -> Form | None:
    votes = Votes()
    share = max(1, SAMPLE_MESSAGES // len(files))
    for message in (m for file in files for m in islice(_read(found, file), share)):
        votes.add(message.key, message.value)
    found.messages = votes.messages
    for protocol, count in votes.others().items():
        found.note(f"{count:,} of the first {votes.messages:,} messages look like {protocol}.")
    return votes.winner()


def _read(found: Inspection, file: Path) -> Iterator[Message]:
    """The messages of a file up to its end or its first fault, which is kept."""
    try:
        yield from messages(file)
    except SourceError as error:
        found.fault(error)


class _Look:
    """The second pass, over everything up to the bound."""

    def __init__(self, found: Inspection, form: Form, beside: Path) -> None:
        self._found = found
        self._form = form
        self._decode = REGISTRY[form.protocol].decode
        self._beside = beside
        self._claims = ClaimFolder(beside / "claim-check")
        self._traits = Traits()
        self._statements: set[int] = set()
        self._registry = registry_beside(found, beside) if form.protocol == "avro" else {}
        self._options = self._options_of()

    def through(self, files: Sequence[Path], bounds: Bounds, say: Callable[[str], None]) -> None:
        """Read the files, each up to its share of the bound."""
        share = None if bounds.messages is None else max(1, bounds.messages // len(files))
        for file in files:
            stream = _read(self._found, file)
            for message in islice(stream, share):
                self._message(message)
                if self._found.messages % SAY_EVERY == 0:
                    say(f"{self._found.messages:,} messages")
            self._found.files_read += 1
            if share is not None and next(stream, None) is not None:
                self._found.whole = False
        self._finish()

    def _options_of(self) -> Any:
        compression = self._form.compression or Compression.NONE
        match self._form.protocol:
            case "open-protocol":
                return open_protocol.Options(compression)
            case "simple":
                return simple.Options(compression)
            case "canal-json":
                return canal_json_messages.Options(compression)
            case "debezium":
                return debezium.Options(compression)
            case _:
                return confluent_avro.Options(self._registry.__getitem__)

    # -- one message --------------------------------------------------------------------------------------------------

    def _message(self, message: Message) -> None:
        self._found.messages += 1
        partition = self._partition(message)
        try:
            events = list(self._events(message))
        except (DecodeError, SchemaError) as error:
            self._unreadable(message, error)
            return
        for event in events:
            self._event(event, message, partition)

    def _events(self, message: Message) -> Iterator[Event]:
        if self._form.protocol == "avro" and not self._registry:
            self._framed_only(message)
            return
        yield from self._decode(message.key, message.value, message.where, self._options)

    def _unreadable(self, message: Message, error: DecodeError | SchemaError) -> None:
        told = detection.form_of(message.key, message.value)
        if told is None:
            expected, found = f"a message of {self._form.protocol}", "one that no decoder reads"
            self._found.problem(message.where, expected, found, "Look who else writes to the topic.")
        elif told.protocol != self._form.protocol:
            expected, found = f"a message of {self._form.protocol}", f"one of {told.protocol}"
            self._found.problem(message.where, expected, found, "Give each changefeed topics of its own.")
        else:
            self._found.problem(message.where, error.expected, error.found, error.todo)

    def _framed_only(self, message: Message) -> None:
        """Without the registry's schemas: topics in place of tables, and whether there is a value."""
        confluent_avro.schema_ids(message.key, message.value, message.where)
        counts = self._found.table("", message.topic).counts
        if message.value:
            counts.upserts += 1
        else:
            counts.deletes += 1

    def _partition(self, message: Message) -> PartitionSeen:
        name = (message.topic, message.partition)
        if name not in self._found.partitions and len(self._found.partitions) >= NAMES_MAX:
            name = ("(other topics)", 0)
        seen = self._found.partitions.get(name)
        if seen is None:
            seen = PartitionSeen(*name, first_offset=message.offset, last_offset=message.offset - 1)
            self._found.partitions[name] = seen
        seen.messages += 1
        _offset(self._found, seen, message)
        return seen

    # -- one event ----------------------------------------------------------------------------------------------------

    def _event(self, event: Event, message: Message, partition: PartitionSeen) -> None:
        if isinstance(event, WatermarkEvent):
            self._found.watermarks += 1
            newest = partition.watermark or 0
            partition.watermark_went_back += event.ts < newest
            partition.watermark = max(newest, event.ts)
        elif isinstance(event, DdlEvent):
            self._schema(event)
        else:
            self._found.table(event.schema, event.table).row(event)
            self._traits.row(event, message.where)
            if event.claim is not None:
                self._claims.check(self._found, event.claim, message.where)

    def _schema(self, event: DdlEvent) -> None:
        identity = hash((event.commit_ts, event.schema, event.table, event.query, event.version))
        self._traits.schema(event)
        if identity in self._statements or len(self._statements) >= 10 * NAMES_MAX:
            return  # the same on another partition, or sent again
        self._statements.add(identity)
        if event.query:
            self._found.statements += 1
        else:
            self._found.schemas += 1
        if event.table:
            table = self._found.table(event.schema, event.table)
            table.statements += bool(event.query)
            table.schemas += not event.query
            table.at(event.commit_ts)

    # -- at the end ---------------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        if not self._found.whole:
            self._found.note(f"Only the first {self._found.messages:,} messages were read; --all reads everything.")
        self._traits.tell(self._found, self._form.protocol)
        _watermark(self._found)
        message_settings(self._found, self._form, self._traits, self._claims, self._registry, self._beside)


def _offset(found: Inspection, seen: PartitionSeen, message: Message) -> None:
    missing = message.offset - seen.last_offset - 1
    if missing > 0:
        seen.missing += missing
        expected, gap = "offsets without gaps", "a gap before it"
        todo = "Capture the missing offsets; if the topic is compacted or expired, they are lost."
        found.problem(message.where, expected, gap, todo)
    elif missing < 0:
        seen.repeats += 1
    seen.last_offset = max(seen.last_offset, message.offset)


def _watermark(found: Inspection) -> None:
    marks = {name: seen.watermark for name, seen in found.partitions.items()}
    known = [mark for mark in marks.values() if mark is not None]
    if known and len(known) == len(marks):
        found.watermark = min(known)
    elif known:
        without = sorted(f"{topic}[{number}]" for (topic, number), mark in marks.items() if mark is None)
        listed = ", ".join(without[:3]) + (" ..." if len(without) > 3 else "")
        found.note(f"No watermark has come yet on {len(without)} of {len(marks)} partitions ({listed}): they hold all.")
    back = sum(seen.watermark_went_back for seen in found.partitions.values())
    if back:
        found.note(f"Watermarks went back {back} times: TiCDC was restarted, and sent changes again.")
    begun = sorted(f"{s.topic}[{s.partition}] at {s.first_offset}" for s in found.partitions.values() if s.first_offset)
    if begun:
        found.note(f"The capture does not begin at offset 0: {', '.join(begun[:3])}{' ...' if len(begun) > 3 else ''}.")
    repeats = sum(seen.repeats for seen in found.partitions.values())
    if repeats:
        found.note(f"{repeats:,} messages have offsets that came before: they are in the capture twice.")
