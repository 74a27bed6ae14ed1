"""Inspects Kafka messages of a capture or of topics: a sample votes on the protocol, then its reference decoder reads
each message.

Files and partitions are read as streams. A truncated or damaged one is reported with the position and counts up to
there; the others are still read.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path
from stat import S_ISREG
from typing import Final

from ticdc_assets.errors import DecodeError, SchemaError, SourceError
from ticdc_assets.protocols.avro import decoder as confluent_avro
from ticdc_assets.protocols.avro.decoder import registry_from_json
from ticdc_assets.protocols.events import Event, WatermarkEvent
from ticdc_assets.protocols.formats.bodies import json_object
from ticdc_assets.protocols.formats.compression import Compression
from ticdc_assets.protocols.protocol import DecoderOptions
from ticdc_assets.protocols.registry import REGISTRY, detection
from ticdc_assets.protocols.registry.detection import MessageForm, Votes
from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.sources.capture import Message
from ticdc_assets.sources.inspection.report import NAMES_MAX, AmountRead, Bounds, Inspection, PartitionSeen
from ticdc_assets.sources.inspection.settings import message_settings
from ticdc_assets.sources.inspection.traits import MessageOrigin, Traits
from ticdc_assets.work_progress import Count, OnProgress

SAMPLE_MESSAGES: Final = 2_000
"""Number of messages that vote on the protocol; they come from all files or partitions."""

SAY_EVERY: Final = 20_000

_ADVICE_GAP: Final = {
    "capture": "Capture the missing offsets; if the topic is compacted or expired, they are lost.",
    "kafka": "Compaction or transactions leave such gaps, and TiCDC uses neither: tables are held until `skip_offsets` "
    "names the offsets.",
}
_ADVICE_EMPTY: Final = "Inspect again when TiCDC has written to the topic."
_ADVICE_PROTOCOL: Final = f"Protocols that are read: {', '.join(REGISTRY)}. Check the changefeed's protocol."


def inspect_messages(origin: MessageOrigin, bounds: Bounds, on_progress: OnProgress) -> Inspection:
    """The content of the files or partitions. Raises SourceError if no message has a known protocol."""
    files = 0 if origin.ranges else len(origin.parts)
    found = Inspection(origin.place, origin.kind, read=AmountRead(files=files))
    form = _form(found, origin, bounds)
    if form is None:
        for problem in found.problems.values():
            raise SourceError(problem.where, problem.expected, problem.found, problem.advice)
        seen = f"no such message among the first {found.read.messages:,}" if found.read.messages else "no message"
        advice = _ADVICE_EMPTY if origin.ranges and not found.read.messages else _ADVICE_PROTOCOL
        raise SourceError(origin.place, "messages of a protocol that TiCDC writes", seen, advice)
    found.read.messages, found.problems = 0, {}
    found.protocol = form.protocol
    _Reader(found, form, origin).read(bounds, on_progress)
    return found


def _form(found: Inspection, origin: MessageOrigin, bounds: Bounds) -> MessageForm | None:
    votes = Votes()
    share = max(1, SAMPLE_MESSAGES // max(1, len(origin.parts)))
    bytes_max = _bytes_of_part(origin, bounds)
    for part in range(len(origin.parts)):
        with closing(_read(found, origin, part)) as stream:
            for message in _first(stream, share, bytes_max):
                votes.add(message.key, message.value)
    found.read.messages = votes.messages
    for protocol, count in votes.others().items():
        found.note(f"{count:,} of the first {votes.messages:,} messages look like {protocol}.")
    return votes.winner()


def _read(found: Inspection, origin: MessageOrigin, part: int) -> Generator[Message]:
    """The messages of a part up to its end or its first fault, which is reported."""
    try:
        yield from origin.parts[part]()
    except SourceError as error:
        found.fault(error)


def _first(stream: Iterator[Message], count: int | None, bytes_max: int | None) -> Iterator[Message]:
    """The first messages of a stream, at least one, up to `count` or to the one that reaches `bytes_max`."""
    size_bytes = 0
    for number, message in enumerate(stream, start=1):
        yield message
        size_bytes += len(message.key or b"") + len(message.value or b"")
        if number == count or (bytes_max is not None and size_bytes >= bytes_max):
            return


def _bytes_of_part(origin: MessageOrigin, bounds: Bounds) -> int | None:
    """The bound for keys and values of a partition; files of a capture are bounded by messages alone."""
    if not origin.ranges or bounds.bytes_ is None:
        return None
    return bounds.bytes_ // len(origin.parts)


class _Reader:
    """The second pass, over all messages up to the bound."""

    def __init__(self, found: Inspection, form: MessageForm, origin: MessageOrigin) -> None:
        self._found = found
        self._form = form
        self._decode = REGISTRY[form.protocol].decode
        self._origin = origin
        self._claims = None if origin.folder is None else ClaimFolder(origin.folder / "claim-check")
        self._traits = Traits()
        self._statements: set[int] = set()
        self._schemas = self._registered() if form.protocol == "avro" else {}
        self._options = self._options_of()

    def read(self, bounds: Bounds, on_progress: OnProgress) -> None:
        """Read the parts, each up to its share of the bounds."""
        self._enter_partitions()
        origin, bytes_max = self._origin, _bytes_of_part(self._origin, bounds)
        share = None if bounds.messages is None else max(1, bounds.messages // max(1, len(origin.parts)))
        for part in range(len(origin.parts)):
            with closing(_read(self._found, origin, part)) as stream:
                for message in _first(stream, share, bytes_max):
                    self._message(message)
                    if self._found.read.messages % SAY_EVERY == 0:
                        on_progress(Count(self._found.read.messages, None, "message"))
                if not (share is None and bytes_max is None) and next(stream, None) is not None:
                    self._found.read.whole = False
        self._found.read.files_read = self._found.read.files
        self._finish()

    def _enter_partitions(self) -> None:
        """Enter the partitions of topics before they are read: one without messages has no watermark yet."""
        for wanted in self._origin.ranges[:NAMES_MAX]:
            seen = PartitionSeen(*wanted.partition, first_offset=wanted.begin, last_offset=wanted.begin - 1)
            self._found.partitions[seen.topic, seen.partition] = seen

    def _registered(self) -> dict[int, str] | None:
        """The schemas of the Avro protocol's registry; None where there are none."""
        folder = self._origin.folder
        return self._origin.schemas if folder is None else registry_of(self._found, folder) or None

    def _options_of(self) -> DecoderOptions:
        compression = self._form.compression or Compression.NONE
        schemas: dict[int, str] = {} if self._schemas is None else self._schemas
        return DecoderOptions(compression=compression, schemas=schemas.__getitem__)

    # -- one message --------------------------------------------------------------------------------------------------

    def _message(self, message: Message) -> None:
        self._found.read.messages += 1
        partition = self._partition(message)
        try:
            events = list(self._events(message))
        except (DecodeError, SchemaError) as error:
            self._unreadable(message, error)
            return
        for event in events:
            self._event(event, message, partition)

    def _events(self, message: Message) -> Iterator[Event]:
        if self._schemas is None:
            self._framed_only(message)
            return
        yield from self._decode(message.key, message.value, message.where, self._options)

    def _unreadable(self, message: Message, error: DecodeError | SchemaError) -> None:
        form = detection.form_of(message.key, message.value)
        if form is None:
            expected, found = f"a message of {self._form.protocol}", "one that the decoder cannot read"
            self._found.problem(message.where, expected, found, "Find out who else writes to the topic.")
        elif form.protocol != self._form.protocol:
            expected, found = f"a message of {self._form.protocol}", f"one of {form.protocol}"
            self._found.problem(message.where, expected, found, "Give each changefeed topics of its own.")
        else:
            self._found.problem(message.where, error.expected, error.found, error.advice)

    def _framed_only(self, message: Message) -> None:
        """Count a message without the schemas of the registry: by topic instead of table, and only by whether it has a
        value."""
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
            self._found.events.watermarks += 1
            newest = partition.watermark or 0
            partition.watermark_went_back += event.ts < newest
            partition.watermark = max(newest, event.ts)
        elif isinstance(event, DdlEvent):
            self._schema(event)
        else:
            self._found.table(event.schema, event.table).row(event)
            self._traits.row(event, message.where)
            if event.claim is not None and self._claims is not None:
                self._claims.check(self._found, event.claim, message.where)

    def _schema(self, event: DdlEvent) -> None:
        identity = hash((event.commit_ts, event.schema, event.table, event.query, event.hints.version))
        self._traits.schema(event)
        if identity in self._statements or len(self._statements) >= 10 * NAMES_MAX:
            return  # repeated, or the same statement on another partition
        self._statements.add(identity)
        if event.query:
            self._found.events.statements += 1
        else:
            self._found.events.schemas += 1
        if event.table:
            table = self._found.table(event.schema, event.table)
            table.statements += bool(event.query)
            table.schemas += not event.query
            table.at(event.commit_ts)

    # -- at the end ---------------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        if not self._found.read.whole:
            self._found.note(
                f"Only the first {self._found.read.messages:,} messages were read; --all reads everything."
            )
        self._traits.add_to(self._found, self._form.protocol)
        _watermark(self._found)
        raw = self._claims is not None and bool(self._claims.raw)
        message_settings(self._found, self._form, self._traits, self._origin, self._schemas, raw)


def _offset(found: Inspection, seen: PartitionSeen, message: Message) -> None:
    missing = message.offset - seen.last_offset - 1
    if missing > 0:
        seen.missing += missing
        expected, gap = "offsets without gaps", "a gap before it"
        found.problem(message.where, expected, gap, _ADVICE_GAP[found.kind])
    elif missing < 0:
        seen.repeats += 1
    seen.last_offset = max(seen.last_offset, message.offset)


def _watermark(found: Inspection) -> None:
    marks = {name: seen.watermark for name, seen in found.partitions.items()}
    known = [mark for mark in marks.values() if mark is not None]
    if known and len(known) == len(marks):
        found.events.watermark = min(known)
    elif known:
        without = sorted(f"{topic}[{number}]" for (topic, number), mark in marks.items() if mark is None)
        listed = ", ".join(without[:3]) + (" ..." if len(without) > 3 else "")
        found.note(
            f"No watermark has arrived yet on {len(without)} of {len(marks)} partitions ({listed}): "
            "all tables wait for them."
        )
    back = sum(seen.watermark_went_back for seen in found.partitions.values())
    if back:
        found.note(f"Watermarks went back {back} times: TiCDC was restarted, and sent changes again.")
    begun = sorted(f"{s.topic}[{s.partition}] at {s.first_offset}" for s in found.partitions.values() if s.first_offset)
    if begun:
        subject = "Reading" if found.kind == "kafka" else "The capture"
        found.note(f"{subject} does not begin at offset 0: {', '.join(begun[:3])}{' ...' if len(begun) > 3 else ''}.")
    repeats = sum(seen.repeats for seen in found.partitions.values())
    if repeats:
        found.note(f"{repeats:,} messages have offsets that occurred before: they are in the capture twice.")


_REGISTRY_FILE: Final = "registry.json"
_REGISTRY_BYTES_MAX: Final = 256 << 20
CLAIM_BYTES_MAX: Final = 64 << 20


def registry_of(found: Inspection, folder: Path) -> dict[int, str]:
    """The registry's schemas by id; a missing or unreadable file is reported as a problem."""
    path = folder / _REGISTRY_FILE
    advice = "Export the schema registry there: a JSON list of {id, subject, version, schema}."
    if not path.is_file():
        found.problem(str(path), "the registered schemas of the Avro protocol", "no such file", advice)
        return {}
    if path.stat().st_size > _REGISTRY_BYTES_MAX:
        found.problem(str(path), f"at most {_REGISTRY_BYTES_MAX} bytes", "more", advice)
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
