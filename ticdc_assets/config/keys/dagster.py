"""The section `dagster` of a changefeed: what its definitions show and start automatically. No run depends on it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from typing import Annotated, Any, Final

from pydantic import Field, PlainValidator, WithJsonSchema

from ticdc_assets.config.model.config import DagsterConfig, OwnersRule, TagsRule
from ticdc_assets.config.model.sink import SinkOptions
from ticdc_assets.config.reading.sections import Section, shown
from ticdc_assets.config.reading.validation import Keys, refused
from ticdc_assets.config.reading.values import TEXTS, texts_of

MAX_LAG_MIN_S: Final = 60
"""Dagster's smallest window of a freshness policy."""

_UNITS_S: Final = {"s": 1, "min": 60, "m": 60, "h": 3600, "d": 86_400}
_DURATION: Final = re.compile(r"(\d{1,9})\s*(s|min|m|h|d)")
_OWNER: Final = re.compile(r"team:.+|[^@\s]+@[^@\s]+\.[^@\s.]+")
_TAG: Final = re.compile(r"[A-Za-z0-9_.-]{1,63}")
_TAG_KEY: Final = re.compile(r"([A-Za-z0-9_.-]{1,63}/)?[A-Za-z0-9_.-]{1,63}")


def _max_lag_s(value: Any) -> int:
    read = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    seconds = int(read[1]) * _UNITS_S[read[2]] if read else 0
    if seconds < MAX_LAG_MIN_S:
        raise refused("a time of at least a minute", shown(value), 'Write one such as "30m", "2h" or "1d".')
    return seconds


def _day(value: Any) -> date:
    try:
        return date.fromisoformat(str(value) if isinstance(value, str | date) else "")
    except ValueError:
        raise refused("a day", shown(value), "Write one such as 2025-07-31.") from None


def _owners(value: Any) -> tuple[str, ...]:
    owners = texts_of(value)
    for owner in owners:
        if not _OWNER.fullmatch(owner):
            raise refused("an email address or team:NAME", shown(owner), "Write such as team:data.")
    return owners


def _tags(value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise refused("a mapping of tags", shown(value), "Write {domain: sales}.")
    for name, text in value.items():
        if not _TAG_KEY.fullmatch(name) or not isinstance(text, str) or not _TAG.fullmatch(text):
            advice = "Use letters, digits, _, - and ., at most 63; quote numbers."
            raise refused("tags that Dagster accepts", shown(f"{name}: {text}"), advice)
    return dict(value)


_Lag = Annotated[int | None, PlainValidator(_max_lag_s), WithJsonSchema({"type": "string"})]
_Day = Annotated[date | None, PlainValidator(_day), WithJsonSchema({"type": "string", "format": "date"})]
_Owners = Annotated[tuple[str, ...], PlainValidator(_owners), WithJsonSchema(TEXTS)]
_Tags = Annotated[
    dict[str, str],
    PlainValidator(_tags),
    WithJsonSchema({"type": "object", "additionalProperties": {"type": "string"}}),
]


class DagsterKeys(Keys):
    """What Dagster starts by itself and shows of the changefeed."""

    sensor: bool = Field(
        default=False, description="whether the changefeed's sensor is on until somebody turns it off in the UI"
    )
    max_lag: _Lag = Field(
        default=None,
        description="the longest time that a table may be behind, at least a minute. The checks "
        "`near_source_checkpoint` and `checkpoint_near_clock` fail above it and warn above half of it (default: 30 and "
        "5 minutes), and changelogs and mirrors get a freshness policy with this limit",
        examples=["30m", "2h", "1d"],
    )
    days_from: _Day = Field(
        default=None,
        description="the first day (UTC) of the asset [`days`](dagster.md#days); without it there is no such asset. "
        "Only for streams with commit_ts and watermarks",
        examples=["2025-07-31"],
    )
    verify: bool = Field(
        default=False,
        description="whether each mirror, and each table without a key, has the check "
        "[`equals_upstream`](dagster.md#checks), which compares it with `upstream`. Only for streams with commit_ts",
    )
    owners: dict[str, _Owners] = Field(
        default={}, description="owners of the assets of the matching tables", examples=[{"shop.*": ["team:data"]}]
    )
    tags: dict[str, _Tags] = Field(
        default={},
        description="tags of the assets of the matching tables; if two patterns match, the later one sets the tag",
        examples=[{"shop.*": {"domain": "sales"}}],
    )


def dagster_of(keys: DagsterKeys, section: Section, sink: SinkOptions | None, has_upstream: bool) -> DagsterConfig:
    """The settings; `section` has their keys. `sink` is None where the changefeed's stream is invalid."""
    if keys.verify and not has_upstream:
        advice = "Name the TiDB that the changefeed reads from: docs/large-rows.md has the keys."
        section.problem("verify", "`upstream` in the changefeed", "none", advice)
    elif keys.verify and sink is not None and not sink.has_commit_ts:
        section.problem("verify", "a stream with commit_ts", "one without", "Remove it.")
    if keys.days_from is not None and sink is not None and not (sink.has_commit_ts and sink.has_watermark):
        section.problem("days_from", "a stream with commit_ts and watermarks", "one without", "Remove it.")
    case_sensitive = sink is not None and sink.case_sensitive
    tags = {pattern: tuple(found.items()) for pattern, found in keys.tags.items()}
    return DagsterConfig(
        sensor_runs=keys.sensor,
        max_lag_s=keys.max_lag,
        days_from=keys.days_from,
        verifies=keys.verify,
        owners=section.below("owners").rules(OwnersRule, keys.owners, case_sensitive),
        tags=section.below("tags").rules(TagsRule, tags, case_sensitive),
    )
