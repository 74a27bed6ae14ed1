"""What each protocol cannot carry: one table, which the tests read to know what to expect and the documents show.

A `Gap` names one thing that is in TiDB and not in the stream, so that no reader can have it. Where the changefeed's
options decide, `when` holds what must be given for the gap to be there, `unless` what closes it. What a stream does
not carry in one form but does in another (DDL as text alone, values in another encoding) is no gap.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Given(StrEnum):
    """What a changefeed was given, as far as gaps depend on it."""

    KAFKA = "Kafka"
    STORAGE = "a storage sink"
    EXTENSION = "`enable-tidb-extension`"
    COMMIT_TS = "`include-commit-ts`"
    OLD_VALUES = "old values"
    DELETES_ARE_KEYS = "`delete-only-output-handle-key-columns`"
    LARGE_ROWS_ARE_KEYS = "`handle-key-only` for large messages"
    UPSTREAM = "`upstream`"
    FULL_TYPES = "`content-compatible`"
    DDL_FROM = "`ddl_from`"
    AVRO_WATERMARK = "`avro-enable-watermark`"
    CLOCK_CHANGES = "a `time_zone` whose clocks change"
    DECIMAL_TEXTS = "`debezium-decimal-handling-mode` `string`"


class About(StrEnum):
    """Which tables or what of them a gap is about."""

    ROWS = "the rows of every table"
    TABLES = "what becomes of tables"
    PROGRESS = "how far the stream is"
    OLDER = "tables older than the stream"
    KEYLESS = "tables without a key"


@dataclass(frozen=True, slots=True)
class Gap:
    """One thing that a protocol's streams do not carry; `id` stays the same, `sentence` is for readers."""

    id: str
    protocol: str
    about: About
    sentence: str
    when: frozenset[Given] = frozenset()
    unless: frozenset[Given] = frozenset()


def _gap(name: str, about: About, sentence: str, when: Collection[Given] = (), unless: Collection[Given] = ()) -> Gap:
    return Gap(name, name.partition(".")[0], about, sentence, frozenset(when), frozenset(unless))


_DELETED: Final = "A deleted row comes as its handle key: the other columns of a D are NULL."
_LARGE: Final = "A row over the message limit comes as its handle key: its table waits."
_LARGE_DELETED: Final = (
    "A deleted row over the message limit comes as its handle key: the other columns of a D are NULL."
)
_BY_ARRIVAL: Final = "Order is that of arrival, and what TiCDC sends again after a restart is in the changelog twice."
_LABELS: Final = "Labels of ENUM and SET, lengths and the precision of DECIMAL: `schema_files` give them."
_REPEATED_HOUR: Final = (
    "Which of two times a TIMESTAMP is in the hour that a clock change repeats: the first is taken. With `time_zone` "
    "UTC there is no such hour."
)

GAPS: Final[tuple[Gap, ...]] = (
    _gap("csv.commit-ts", About.ROWS, f"The commit_ts of a row. {_BY_ARRIVAL}", unless=[Given.COMMIT_TS]),
    _gap("csv.old-values", About.ROWS, "The old values of an update.", unless=[Given.OLD_VALUES]),
    _gap(
        "csv.updated-row", About.KEYLESS, "Which row an update changed. There can be no mirror.",
        unless=[Given.OLD_VALUES],
    ),
    _gap("csv.repeated-hour", About.ROWS, _REPEATED_HOUR, when=[Given.CLOCK_CHANGES]),
    _gap("csv.unique-key", About.OLDER, "A key that is UNIQUE NOT NULL and not primary: name it in `keys`."),
    _gap("csv.labels", About.OLDER, "Labels of ENUM and SET that no row has had."),
    _gap(
        "canal-json.commit-ts", About.ROWS,
        f"The commit_ts of a row, but for its milliseconds. {_BY_ARRIVAL}", unless=[Given.EXTENSION],
    ),
    _gap(
        "canal-json.watermark", About.PROGRESS, "Up to which TSO the stream is complete: there is none to read at.",
        when=[Given.KAFKA], unless=[Given.EXTENSION],
    ),
    _gap("canal-json.deleted-row", About.ROWS, _DELETED, when=[Given.DELETES_ARE_KEYS]),
    _gap("canal-json.large-row", About.ROWS, _LARGE, when=[Given.LARGE_ROWS_ARE_KEYS], unless=[Given.UPSTREAM]),
    _gap("canal-json.large-deleted-row", About.ROWS, _LARGE_DELETED, when=[Given.LARGE_ROWS_ARE_KEYS]),
    _gap("canal-json.repeated-hour", About.ROWS, _REPEATED_HOUR, when=[Given.CLOCK_CHANGES]),
    _gap("canal-json.unique-key", About.OLDER, "A key that is UNIQUE NOT NULL and not primary: name it in `keys`."),
    _gap("canal-json.types", About.OLDER, _LABELS, when=[Given.KAFKA], unless=[Given.FULL_TYPES]),
    _gap(
        "canal-json.partition-id", About.TABLES,
        "Which partition a row is in. TRUNCATE and DROP PARTITION take the rows that its bounds or function name.",
        when=[Given.KAFKA],
    ),
    _gap("open-protocol.old-values", About.ROWS, "The old values of an update.", unless=[Given.OLD_VALUES]),
    _gap("open-protocol.operation", About.ROWS, "Whether a row was inserted or updated.", unless=[Given.OLD_VALUES]),
    _gap("open-protocol.deleted-row", About.ROWS, _DELETED, when=[Given.DELETES_ARE_KEYS]),
    _gap("open-protocol.large-row", About.ROWS, _LARGE, when=[Given.LARGE_ROWS_ARE_KEYS], unless=[Given.UPSTREAM]),
    _gap("open-protocol.large-deleted-row", About.ROWS, _LARGE_DELETED, when=[Given.LARGE_ROWS_ARE_KEYS]),
    _gap("open-protocol.repeated-hour", About.ROWS, _REPEATED_HOUR, when=[Given.CLOCK_CHANGES]),
    _gap("open-protocol.types", About.OLDER, f"{_LABELS} Nor the order of columns."),
    _gap("simple.deleted-row", About.ROWS, _DELETED, when=[Given.DELETES_ARE_KEYS]),
    _gap("simple.large-row", About.ROWS, _LARGE, when=[Given.LARGE_ROWS_ARE_KEYS], unless=[Given.UPSTREAM]),
    _gap("simple.large-deleted-row", About.ROWS, _LARGE_DELETED, when=[Given.LARGE_ROWS_ARE_KEYS]),
    _gap("simple.repeated-hour", About.ROWS, _REPEATED_HOUR, when=[Given.CLOCK_CHANGES]),
    _gap("simple.column-order", About.OLDER, "The order of columns that were added in another place than the last."),
    _gap("simple.virtual", About.OLDER, "Which columns are virtual: they are in the tables and NULL."),
    _gap(
        "avro.deleted-row", About.ROWS,
        "A deleted row comes as its handle key, without a commit_ts: the other columns of a D are NULL, its order is "
        "that of arrival, and next to a statement its table version may be the one before.",
    ),
    _gap("avro.old-values", About.ROWS, "The old values of an update."),
    _gap("avro.repeated-hour", About.ROWS, _REPEATED_HOUR, when=[Given.CLOCK_CHANGES]),
    _gap("avro.commit-ts", About.ROWS, f"The commit_ts of a row. {_BY_ARRIVAL}", unless=[Given.EXTENSION]),
    _gap("avro.operation", About.ROWS, "Whether a row was inserted or updated.", unless=[Given.EXTENSION]),
    _gap("avro.watermark", About.PROGRESS, "Up to which TSO the stream is complete: there is none to read at."),
    _gap(
        "avro.statements", About.TABLES,
        "DDL. A renamed table begins anew under its name, TRUNCATE and DROP leave rows, a dropped column its values; "
        "what was added shows in the next row.",
        unless=[Given.DDL_FROM, Given.AVRO_WATERMARK],
    ),
    _gap(
        "avro.names", About.TABLES,
        "Names of columns with characters other than letters, digits and `_` (they become `_`), and of databases and "
        "tables where the topic has not them either.",
        unless=[Given.DDL_FROM, Given.AVRO_WATERMARK],
    ),
    _gap(
        "avro.types", About.TABLES,
        "Lengths, fraction digits, partitioning, and the precision of DECIMAL sent as text: such a column is text.",
        unless=[Given.DDL_FROM, Given.AVRO_WATERMARK],
    ),
    _gap("avro.row", About.KEYLESS, "Which row was deleted: such messages are quarantined."),
    _gap("debezium.decimal", About.ROWS, "The digits of a DECIMAL behind the 15th.", unless=[Given.DECIMAL_TEXTS]),
    _gap("debezium.null", About.ROWS, "NULL in a column that has a default: the default comes instead."),
    _gap("debezium.zero-date", About.ROWS, "Zero dates in NOT NULL columns: 1970 comes instead."),
    _gap("debezium.old-values", About.ROWS, "The old values of an update.", unless=[Given.OLD_VALUES]),
    _gap(
        "debezium.watermark", About.PROGRESS, "Up to which TSO the stream is complete: there is none to read at.",
        unless=[Given.EXTENSION],
    ),
    _gap("debezium.schema", About.OLDER, "The columns of a table: it waits until `schema_files` give them."),
)  # fmt: skip


def gaps(protocol: str, given: Collection[Given]) -> tuple[Gap, ...]:
    """What a changefeed of this protocol that was given this cannot carry."""
    held = frozenset(given)
    return tuple(g for g in GAPS if g.protocol == protocol and g.when <= held and not g.unless & held)
