"""What the streams of each protocol do not contain. The tests and docs/protocols.md use this table.

A `Limitation` is information that TiDB has and the stream does not, so no reader can recover it. It exists if all
conditions in `when` and none in `unless` hold. Information in another form (DDL only as text, values in another
encoding) is not missing.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Condition(StrEnum):
    """The settings of a changefeed that limitations depend on."""

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
    SELECTORS = "`column-selectors`"
    TEXT_AS_NULL = "an empty `quote` and a `null` that a text can be, such as an empty one"


class About(StrEnum):
    """What a limitation affects."""

    ROWS = "the rows of every table"
    TABLES = "statements and schemas"
    PROGRESS = "the watermark"
    OLDER = "tables older than the stream"
    KEYLESS = "tables without a key"


@dataclass(frozen=True, slots=True)
class Limitation:
    """Information that streams of a protocol do not contain; `id` is stable, `sentence` is for the documentation."""

    id: str
    protocol: str
    about: About
    sentence: str
    when: frozenset[Condition] = frozenset()
    unless: frozenset[Condition] = frozenset()


def _limit(
    name: str, about: About, sentence: str, when: Collection[Condition] = (), unless: Collection[Condition] = ()
) -> Limitation:
    return Limitation(name, name.partition(".")[0], about, sentence, frozenset(when), frozenset(unless))


_DELETED: Final = "The columns of a deleted row, except its handle key. They are NULL in the D."
_LARGE: Final = "The columns of a row over the message limit, except its handle key. Its table waits."
_LARGE_DELETED: Final = (
    "The columns of a deleted row over the message limit, except its handle key. They are NULL in the D."
)
_BY_ARRIVAL: Final = (
    "Changes are in the order of arrival, and what TiCDC sends again after a restart is in the changelog twice."
)
_LABELS: Final = "Labels of ENUM and SET, lengths, and the precision of DECIMAL. `schema_files` provide them."
_REPEATED_HOUR: Final = (
    "Which of two times a TIMESTAMP means in the hour that a clock change repeats. The first one is stored and "
    "counted. A row with such a key is quarantined. With `time_zone` UTC there is no such hour."
)
_UNLESS_CHECKSUM: Final = f"{_REPEATED_HOUR} Row checksums show which one it is."
_LEFT_OUT: Final = "The values of columns that the selectors leave out. They are NULL."
_VIRTUAL: Final = "Which columns are virtual. A column without values in the rows is in the tables, and NULL."

GAPS: Final[tuple[Limitation, ...]] = (
    _limit("csv.commit-ts", About.ROWS, f"The commit_ts of a row. {_BY_ARRIVAL}", unless=[Condition.COMMIT_TS]),
    _limit("csv.old-values", About.ROWS, "The old values of an update.", unless=[Condition.OLD_VALUES]),
    _limit(
        "csv.updated-row", About.KEYLESS, "Which row an update changed. The table has no mirror.",
        unless=[Condition.OLD_VALUES],
    ),
    _limit(
        "csv.null",
        About.ROWS,
        "Whether a nullable column of text or bytes is NULL or has the text of `null`. It is NULL.",
        when=[Condition.TEXT_AS_NULL],
    ),
    _limit("csv.left-out", About.ROWS, _LEFT_OUT, when=[Condition.SELECTORS]),
    _limit("csv.repeated-hour", About.ROWS, _REPEATED_HOUR, when=[Condition.CLOCK_CHANGES]),
    _limit("csv.unique-key", About.OLDER, "A key that is UNIQUE NOT NULL and not primary. `keys` can name it."),
    _limit("csv.labels", About.OLDER, "Labels of ENUM and SET that no row has had."),
    _limit(
        "canal-json.commit-ts", About.ROWS,
        f"The commit_ts of a row, except its milliseconds. {_BY_ARRIVAL}", unless=[Condition.EXTENSION],
    ),
    _limit(
        "canal-json.watermark", About.PROGRESS, "Up to which TSO the stream is complete. There is no TSO to read at.",
        when=[Condition.KAFKA], unless=[Condition.EXTENSION],
    ),
    _limit("canal-json.deleted-row", About.ROWS, _DELETED, when=[Condition.DELETES_ARE_KEYS]),
    _limit(
        "canal-json.large-row",
        About.ROWS,
        _LARGE,
        when=[Condition.LARGE_ROWS_ARE_KEYS],
        unless=[Condition.UPSTREAM],
    ),
    _limit("canal-json.large-deleted-row", About.ROWS, _LARGE_DELETED, when=[Condition.LARGE_ROWS_ARE_KEYS]),
    _limit("canal-json.left-out", About.ROWS, _LEFT_OUT, when=[Condition.SELECTORS]),
    _limit("canal-json.repeated-hour", About.ROWS, _REPEATED_HOUR, when=[Condition.CLOCK_CHANGES]),
    _limit("canal-json.virtual", About.OLDER, _VIRTUAL, when=[Condition.STORAGE]),
    _limit("canal-json.unique-key", About.OLDER, "A key that is UNIQUE NOT NULL and not primary. `keys` can name it."),
    _limit("canal-json.types", About.OLDER, _LABELS, when=[Condition.KAFKA], unless=[Condition.FULL_TYPES]),
    _limit(
        "canal-json.partition-id", About.TABLES,
        "The partition of a row. TRUNCATE and DROP PARTITION remove the rows of its bounds or function.",
        when=[Condition.KAFKA],
    ),
    _limit("open-protocol.old-values", About.ROWS, "The old values of an update.", unless=[Condition.OLD_VALUES]),
    _limit(
        "open-protocol.operation",
        About.ROWS,
        "Whether a row was inserted or updated.",
        unless=[Condition.OLD_VALUES],
    ),
    _limit("open-protocol.deleted-row", About.ROWS, _DELETED, when=[Condition.DELETES_ARE_KEYS]),
    _limit(
        "open-protocol.large-row",
        About.ROWS,
        _LARGE,
        when=[Condition.LARGE_ROWS_ARE_KEYS],
        unless=[Condition.UPSTREAM],
    ),
    _limit("open-protocol.large-deleted-row", About.ROWS, _LARGE_DELETED, when=[Condition.LARGE_ROWS_ARE_KEYS]),
    _limit("open-protocol.left-out", About.ROWS, _LEFT_OUT, when=[Condition.SELECTORS]),
    _limit("open-protocol.repeated-hour", About.ROWS, _REPEATED_HOUR, when=[Condition.CLOCK_CHANGES]),
    _limit("open-protocol.types", About.OLDER, f"The order of columns. {_LABELS}"),
    _limit("simple.deleted-row", About.ROWS, _DELETED, when=[Condition.DELETES_ARE_KEYS]),
    _limit("simple.large-row", About.ROWS, _LARGE, when=[Condition.LARGE_ROWS_ARE_KEYS], unless=[Condition.UPSTREAM]),
    _limit("simple.large-deleted-row", About.ROWS, _LARGE_DELETED, when=[Condition.LARGE_ROWS_ARE_KEYS]),
    _limit("simple.repeated-hour", About.ROWS, _UNLESS_CHECKSUM, when=[Condition.CLOCK_CHANGES]),
    _limit("simple.left-out", About.ROWS, _LEFT_OUT, when=[Condition.SELECTORS]),
    _limit("simple.column-order", About.OLDER, "The order of columns that were added in another place than the last."),
    _limit("simple.virtual", About.OLDER, _VIRTUAL),
    _limit(
        "avro.deleted-row", About.ROWS,
        "The commit_ts of a deleted row, and its columns except the handle key. These columns are NULL in the D. The D "
        "is in the order of arrival; next to a statement it may have the table version from before the statement.",
        unless=[Condition.OLD_VALUES],
    ),
    _limit("avro.old-values", About.ROWS, "The old values of an update.", unless=[Condition.OLD_VALUES]),
    _limit(
        "avro.left-out", About.ROWS,
        f"{_LEFT_OUT} If a table's columns are known only from rows, the table lacks these columns.",
        when=[Condition.SELECTORS],
    ),
    _limit("avro.repeated-hour", About.ROWS, _UNLESS_CHECKSUM, when=[Condition.CLOCK_CHANGES]),
    _limit("avro.commit-ts", About.ROWS, f"The commit_ts of a row. {_BY_ARRIVAL}", unless=[Condition.EXTENSION]),
    _limit("avro.operation", About.ROWS, "Whether a row was inserted or updated.", unless=[Condition.EXTENSION]),
    _limit("avro.watermark", About.PROGRESS, "Up to which TSO the stream is complete. There is no TSO to read at."),
    _limit(
        "avro.repeats", About.PROGRESS,
        "Whether a delete is a repeat. So all rows stay in the order of arrival, and what TiCDC sends again after a "
        "restart is in the changelog twice, also with commit_ts: a mirror needs the rows again that follow a repeated "
        "delete.",
    ),
    _limit(
        "avro.statements", About.TABLES,
        "DDL. A renamed table begins again under its new name. TRUNCATE and DROP leave rows, and a dropped column "
        "leaves its values. An added column appears with the next row.",
        unless=[Condition.DDL_FROM, Condition.AVRO_WATERMARK],
    ),
    _limit(
        "avro.names", About.TABLES,
        "Characters of column names other than letters, digits and `_`: they become `_`. The same is true of names of "
        "databases and tables, unless the topic has them.",
        unless=[Condition.DDL_FROM, Condition.AVRO_WATERMARK],
    ),
    _limit(
        "avro.types", About.TABLES,
        "Lengths, fraction digits, partitioning, and the precision of a DECIMAL sent as text. Such a column is text.",
        unless=[Condition.DDL_FROM, Condition.AVRO_WATERMARK],
    ),
    _limit("avro.row", About.KEYLESS, "Which row was deleted. Such messages are quarantined."),
    _limit(
        "debezium.decimal",
        About.ROWS,
        "The digits of a DECIMAL after the 15th.",
        unless=[Condition.DECIMAL_TEXTS],
    ),
    _limit("debezium.null", About.ROWS, "NULL in a column that has a default. The stream has the default instead."),
    _limit("debezium.left-out", About.ROWS, _LEFT_OUT, when=[Condition.SELECTORS]),
    _limit("debezium.zero-date", About.ROWS, "Zero dates in NOT NULL columns. The stream has 1970 instead."),
    _limit("debezium.old-values", About.ROWS, "The old values of an update.", unless=[Condition.OLD_VALUES]),
    _limit(
        "debezium.watermark", About.PROGRESS, "Up to which TSO the stream is complete. There is no TSO to read at.",
        unless=[Condition.EXTENSION],
    ),
    _limit("debezium.schema", About.OLDER, "The columns of a table. It waits until `schema_files` provide them."),
)  # fmt: skip


def gaps(protocol: str, given: Collection[Condition]) -> tuple[Limitation, ...]:
    """The limitations of a changefeed with this protocol and these settings."""
    held = frozenset(given)
    return tuple(g for g in GAPS if g.protocol == protocol and g.when <= held and not g.unless & held)
