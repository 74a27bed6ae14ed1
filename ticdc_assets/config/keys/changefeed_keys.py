"""The keys of a changefeed: what each takes, and what happens when it changes on a lake with data."""

from __future__ import annotations

import re
from enum import StrEnum
from functools import partial
from typing import Annotated, Any, Final, Literal
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, ConfigDict, Field, PlainValidator, Strict, ValidationInfo, WithJsonSchema

from ticdc_assets.config.keys.dagster import DagsterKeys
from ticdc_assets.config.keys.partition_spec import PartitionSpecs
from ticdc_assets.config.keys.source import RegistryKeys, SourceKeys, UpstreamKeys
from ticdc_assets.config.model.config import HeldViews, OffsetRule, OnBadMessage, OnDrop, Publish, ZeroDates
from ticdc_assets.config.reading.sections import kind_of, shown
from ticdc_assets.config.reading.validation import Context, Keys, refused, refused_by
from ticdc_assets.config.reading.values import TEXTS, FilePath, Text, Texts, text_of, texts_of
from ticdc_assets.errors import ConfigError
from ticdc_assets.names import IdentifierTemplates

FORMAT_VERSIONS: Final = (2, 3)
_TEMPLATES: Final = IdentifierTemplates()
OFFSET_END: Final = 1 << 63
_RULE: Final = re.compile(
    r"(?P<topic>[^\[\]@]+)\[(?P<partition>\*|[0-9]{1,9})\](?:@(?P<first>[0-9]{1,18})(?:-(?P<last>[0-9]{1,18}))?)?"
)


def read_offset_rules(text: str) -> tuple[OffsetRule, ...]:
    """Parse a rule; without offsets it means all of them. Raises ConfigError for an invalid text."""
    found = _RULE.fullmatch(text.strip())
    first = int(found["first"]) if found and found["first"] else 0
    last = int(found["last"] or first) if found and found["first"] else OFFSET_END - 1
    if found is None or last < first:
        advice = 'Write "topic[0]@1000-1199"; "topic[*]" accepts every missing offset of a topic.'
        raise ConfigError("", "a topic, its partition and the offsets that may be missing", shown(text), advice)
    partition = None if found["partition"] == "*" else int(found["partition"])
    return (OffsetRule(found["topic"], partition, first, last + 1),)


class OnChange(StrEnum):
    """The kinds of effects of a change of a key.

    NEXT: it applies to what runs read or make from now on. WHOLE: it applies to all tables of the lake with the next
    run. HELD: a table whose rows were read otherwise is held.
    """

    NEXT = "from now on"
    WHOLE = "all tables"
    HELD = "held"


def _changes(effect: OnChange, sentence: str = "") -> dict[str, Any]:
    """The effect of a change of the key, and what there is to know about it."""
    return {"x-change": [effect.value, sentence]}


_next, _whole, _held = (partial(_changes, effect) for effect in (OnChange.NEXT, OnChange.WHOLE, OnChange.HELD))


def _time_zone(zone: str) -> str:
    try:
        ZoneInfo(zone or "UTC")
    except (OSError, ValueError, LookupError):
        raise refused("an IANA time zone", shown(zone), "Write one such as UTC or Asia/Shanghai.") from None
    return zone or "UTC"


def _config(value: Any, info: ValidationInfo[Context]) -> dict[str, Any]:
    if not isinstance(value, dict):
        found = f"a {kind_of(value)}"
        raise refused("a mapping", found, "Paste TiCDC's configuration, or use config_file.")
    return {key: _with_environment(below, info.context) for key, below in value.items()}


def _with_environment(value: Any, context: Context) -> Any:
    if isinstance(value, list):
        return [_with_environment(item, context) for item in value]
    if not isinstance(value, dict):
        return value
    if list(value) == ["env"]:
        return text_of(value, context, "config")
    return {key: _with_environment(item, context) for key, item in value.items()}


def _columns(value: Any) -> tuple[str, ...]:
    columns = texts_of(value)
    if not columns or len(set(columns)) < len(columns):
        raise refused("the key's columns, each once", "none or a repeat", 'Write ["a", "b"].')
    return columns


def _format_version(value: Any) -> int:
    if type(value) is not int or value not in FORMAT_VERSIONS:
        raise refused("2 or 3", shown(value), "Write 3, or 2 for readers without deletion vectors.")
    return value


def _skip_offsets(value: Any) -> tuple[OffsetRule, ...]:
    try:
        return tuple(rule for text in texts_of(value) for rule in read_offset_rules(text))
    except ConfigError as error:
        raise refused_by(error) from None


class TargetKeys(Keys):
    """Templates of the tables' names: parts with dots between them, and the fields {schema}, {table}, {changefeed}."""

    mirror: Text = Field(default=_TEMPLATES.mirror, description="the names of mirrors")
    changelog: Text = Field(default=_TEMPLATES.changelog, description="the names of changelogs")
    control: Text = Field(default=_TEMPLATES.control, description="the namespace of the control tables")


class ChangefeedKeys(Keys):
    """One changefeed."""

    model_config = ConfigDict(json_schema_extra={"required": ["sink_uri"]})

    sink_uri: Text | None = Field(
        default=None,
        description="the value of `cdc cli changefeed create --sink-uri`; its options are used",
        examples=["s3://bucket/prefix?protocol=canal-json&enable-tidb-extension=true"],
        json_schema_extra=_next(
            "The new place has to have the same stream from where the last run ended. A stream with commit_ts and one "
            "without are refused for one another, and so are files and messages"
        ),
    )
    config: Annotated[dict[str, Any], PlainValidator(_config), WithJsonSchema({"type": "object"})] = Field(
        default={},
        description="the changefeed's own configuration, written out; [ticdc-options.md](ticdc-options.md) says how "
        "each option is handled",
        examples=[{"sink": {"csv": {"include-commit-ts": True}}}],
        json_schema_extra=_next("As `sink_uri`. What was read stays as it is"),
    )
    config_file: FilePath = Field(
        default=None,
        description="the changefeed's own configuration as a TOML file, in place of `config`",
        examples=["changefeed.toml"],
        json_schema_extra=_next("As `config`"),
    )
    source: SourceKeys = Field(
        default_factory=SourceKeys,
        description="[where the stream is read](#source); default: what `sink_uri` names",
        examples=[{"storage": "s3://bucket/prefix"}],
        json_schema_extra=_next("As `sink_uri`"),
    )
    time_zone: Annotated[Text, AfterValidator(_time_zone)] = Field(
        default="UTC",
        description="an IANA name: the zone in which TiCDC writes TIMESTAMP",
        examples=["Asia/Shanghai"],
        json_schema_extra=_held(
            "Tables with a TIMESTAMP column: `settings`. The others go on. If TiCDC itself changed its zone, read the "
            "stream from there on in a changefeed of its own"
        ),
    )
    tables: Texts = Field(
        default=("*.*",),
        description="patterns of TiCDC's filter; a pattern matches [any name that the table has in its "
        "life](late-data.md#tables-selected-later)",
        examples=[["shop.*", "!shop.tmp_*"]],
        json_schema_extra=_next(
            "A table that is selected later is read from its beginning; one that is not selected any more keeps its "
            "rows, and goes on from where it ended when it is selected again"
        ),
    )
    schema_files: Texts = Field(
        default=(),
        description="files or globs: the output of SHOW CREATE TABLE or Dumpling for tables older than the stream; a "
        "file's name begins with the database, `shop.orders-schema.sql`. A table is described as it was when the "
        "changefeed began: the statements of the stream are applied to it. Two files that describe a table in "
        "different ways are refused. A table whose text is not understood waits (`no_schema`) where the stream has no "
        "CREATE TABLE of it",
        examples=[["dump/*-schema.sql"]],
        json_schema_extra=_next(
            "A table whose rows then have other columns is held: `late_statement`; one whose rows have another key: "
            "`settings`"
        ),
    )
    keys: dict[str, Annotated[tuple[str, ...], PlainValidator(_columns), WithJsonSchema(TEXTS)]] = Field(
        default={},
        description="the key columns of tables whose key the stream does not carry, by pattern as in `tables`",
        examples=[{"shop.log": ["id"]}],
        json_schema_extra=_held(
            "Tables whose key becomes another one: `settings`. A table without a key gets its mirror at once, unless "
            "an update has changed the new key. Columns that cannot be the key of a table: `keys`"
        ),
    )
    partition: PartitionSpecs = Field(
        default={},
        description="the partition spec of all mirrors, or of those that match a pattern; a change applies to new "
        "mirrors, and at `rebuild`: [what follows the source](mirrors.md#partitions-of-a-mirror)",
        examples=["bucket(16)", ["bucket(16)", "day(created)"], {"shop.*": "bucket(16, id)", "*.*": "none"}],
        json_schema_extra=_next("Of mirrors that are created or rebuilt"),
    )
    format_version: Annotated[int, PlainValidator(_format_version), WithJsonSchema({"enum": [2, 3]})] = Field(
        default=FORMAT_VERSIONS[-1],
        description="the version of Iceberg's table format of mirrors: 3, or 2 for readers without deletion vectors",
        json_schema_extra=_next("Of mirrors and histories that are created"),
    )
    on_drop: Annotated[OnDrop, Strict(False)] = Field(
        default=OnDrop.KEEP,
        description="whether the mirror of a dropped table stays (`keep`) or is dropped with its files (`drop`); the "
        "changelog stays",
        json_schema_extra=_whole("`drop` also removes the mirrors of tables that are dropped already; for good"),
    )
    history: Texts = Field(
        default=(),
        description="which tables have a [history table](time.md#history-tables): patterns as in `tables`. Only for "
        "streams with commit_ts and watermarks, and not for the Avro protocol",
        examples=[["shop.*", "!shop.tmp_*"]],
        json_schema_extra=_whole(
            "A history is made from the whole changelog. One that is not selected any more stays as it is, and goes "
            "on when it is selected again"
        ),
    )
    publish: Annotated[Publish, Strict(False)] = Field(
        default=Publish.EACH,
        description="how a run publishes mirrors: `each` in a commit of its own, or all of a run and its record "
        "[together in one commit](readers.md#tables-that-move-together). `together` only for streams with commit_ts "
        "and watermarks, and for catalogs [that can](catalogs.md#several-tables-in-one-commit)",
        json_schema_extra=_next(),
    )
    views: Text | None = Field(
        default=None,
        description="a template of names with dots between their parts, with `{table}` and, where wanted, `{schema}` "
        "and `{changefeed}`: each mirror has a [view](readers.md#views) of that name, which shows the newest complete "
        "record. Only for streams with commit_ts and watermarks, and for catalogs [with views](catalogs.md#views)",
        examples=["{schema}__recorded.{table}"],
        json_schema_extra=_whole("Views of the former names are removed"),
    )
    held_views: Annotated[HeldViews, Strict(False)] = Field(
        default=HeldViews.BACK,
        description="what views show while a table is held. `back`: all stay at the last complete record; `refuse`: "
        "those of the other tables go on, and a held table has no view",
        json_schema_extra=_whole("Views of tables that are held are removed, or made again"),
    )
    readers: Literal["newest", "before_quarantine"] = Field(
        default="newest",
        description="[what views and `recorded()` show](bad-input.md#tables-with-records-in-quarantine) of tables with "
        "records in quarantine",
        json_schema_extra=_whole("Views show the record that is asked for from then on"),
    )
    zero_dates: Annotated[ZeroDates, Strict(False)] = Field(
        default=ZeroDates.NULL,
        description="what a date such as 0000-00-00 becomes: NULL, or [an error](bad-input.md) of its record",
        json_schema_extra=_next("What was read stays as it is; records in quarantine need a replay"),
    )
    on_bad_message: Annotated[OnBadMessage, Strict(False)] = Field(
        default=OnBadMessage.QUARANTINE,
        description="[what happens to a message that cannot be decoded](bad-input.md#records-and-values). With "
        "`quarantine`, a run whose records are mostly bad is refused",
        json_schema_extra=_next("Records in quarantine stay there"),
    )
    skip_files: Texts = Field(
        default=(),
        description="[files that are given up](bad-input.md), as globs below the sink's root; `folder/*` for all of a "
        "folder. [After a glob is removed](late-data.md#files-in-closed-folders) its files are not read",
        examples=[["shop/orders/*/CDC000007.csv"]],
        json_schema_extra=_next("What was given up stays given up: `rebuild --from source` reads it"),
    )
    skip_offsets: Annotated[tuple[OffsetRule, ...], PlainValidator(_skip_offsets), WithJsonSchema(TEXTS)] = Field(
        default=(),
        description="[missing messages that are given up](bad-input.md): a topic or a glob, a partition or `*`, and "
        "offsets; without offsets, all of them",
        examples=[["feed[0]@1000-1199", "feed[*]"]],
        json_schema_extra=_next(
            "What was given up is read if it comes back. A rule that is removed while a table is held from before its "
            "offsets holds the tables of the topic again"
        ),
    )
    claim_check: Text | None = Field(
        default=None,
        description="the folder or URI of large messages, if it differs from the one in the changefeed's configuration",
        examples=["s3://bucket/claims"],
        json_schema_extra=_next(),
    )
    schema_registry: RegistryKeys = Field(
        default_factory=RegistryKeys,
        description="[the schemas of the Avro protocol](#schema_registry)",
        examples=[{"url": "https://registry:8081", "auth": {"user": "u", "password": {"env": "P"}}}],
        json_schema_extra=_next(
            "Messages of held tables are read again: the new one must have their schemas under the same ids"
        ),
    )
    ddl_from: Text | None = Field(
        default=None,
        description="for the Avro protocol with the TiDB extension: another changefeed of the file, which carries the "
        "statements; run that one first",
        json_schema_extra=_next(
            "Another one, which carries the same statements, may be named. To name one after the first run, and to "
            "remove it, is refused"
        ),
    )
    upstream: UpstreamKeys | None = Field(
        default=None,
        description="[the TiDB of the changefeed](#upstream): completes [large rows](large-rows.md) of which only the "
        "handle key was sent, and is [compared with mirrors](time.md#mirrors-compared-with-tidb)",
        examples=[{"host": "tidb", "user": "reader", "password": {"env": "TIDB_PASSWORD"}}],
        json_schema_extra=_next("Rows that wait for it are completed"),
    )
    target: TargetKeys = Field(
        default_factory=TargetKeys,
        description="[templates of the tables' names](#target)",
        examples=[{"mirror": "{schema}.{table}"}],
        json_schema_extra=_whole(
            "`mirror` and `changelog`: the tables are renamed. `control`: refused, since the records of the changefeed "
            "are there"
        ),
    )
    dagster: DagsterKeys = Field(
        default_factory=DagsterKeys,
        description="[what Dagster starts by itself and shows](#dagster)",
        examples=[{"sensor": True}],
        json_schema_extra=_next(),
    )
