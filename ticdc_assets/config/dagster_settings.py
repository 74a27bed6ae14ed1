"""The section `dagster` of a changefeed: what its definitions show and start automatically. No run depends on it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any, Final

from ticdc_assets.config.model import DagsterConfig, OwnersRule, TagsRule
from ticdc_assets.config.reading import Section, shown
from ticdc_assets.config.sink import SinkOptions
from ticdc_assets.table_filter import TableFilter

MAX_LAG_MIN_S: Final = 60
"""Dagster's smallest window of a freshness policy."""

_UNITS_S: Final = {"s": 1, "min": 60, "m": 60, "h": 3600, "d": 86_400}
_DURATION: Final = re.compile(r"(\d{1,9})\s*(s|min|m|h|d)")
_OWNER: Final = re.compile(r"team:.+|[^@\s]+@[^@\s]+\.[^@\s.]+")
_TAG: Final = re.compile(r"[A-Za-z0-9_.-]{1,63}")
_TAG_KEY: Final = re.compile(r"([A-Za-z0-9_.-]{1,63}/)?[A-Za-z0-9_.-]{1,63}")


def read_dagster(section: Section, sink: SinkOptions | None, has_upstream: bool) -> DagsterConfig:
    """Read the section; faults are added to its problems. `sink` is None where the changefeed's stream is invalid."""
    below, case_sensitive = section.section("dagster"), sink is not None and sink.case_sensitive
    found = DagsterConfig(
        sensor_runs=_switch(below, "sensor"),
        max_lag_s=_max_lag_s(below),
        days_from=_days_from(below, sink),
        verifies=_verifies(below, sink, has_upstream),
        owners=tuple(_owners(below.section("owners"), case_sensitive)),
        tags=tuple(_tags(below.section("tags"), case_sensitive)),
    )
    below.close()
    return found


def _switch(section: Section, key: str) -> bool:
    value = section.raw(key)
    if value is not None and not isinstance(value, bool):
        section.problem(key, "true or false", shown(value), "Write true to turn it on.")
    return value is True


def _verifies(section: Section, sink: SinkOptions | None, has_upstream: bool) -> bool:
    if not _switch(section, "verify"):
        return False
    if not has_upstream:
        advice = "Name the TiDB that the changefeed reads from: docs/large-rows.md has the keys."
        section.problem("verify", "`upstream` in the changefeed", "none", advice)
    elif sink is not None and not sink.has_commit_ts:
        section.problem("verify", "a stream with commit_ts", "one without", "Remove it.")
    return True


def _max_lag_s(section: Section) -> int | None:
    value = section.raw("max_lag")
    if value is None:
        return None
    read = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    seconds = int(read[1]) * _UNITS_S[read[2]] if read else 0
    if seconds < MAX_LAG_MIN_S:
        section.problem(
            "max_lag", "a time of at least a minute", shown(value), 'Write one such as "30m", "2h" or "1d".'
        )
        return None
    return seconds


def _days_from(section: Section, sink: SinkOptions | None) -> date | None:
    value = section.raw("days_from")
    if value is None:
        return None
    if sink is not None and not (sink.has_commit_ts and sink.has_watermark):
        section.problem("days_from", "a stream with commit_ts and watermarks", "one without", "Remove it.")
        return None
    try:
        return date.fromisoformat(str(value) if isinstance(value, str | date) else "")
    except ValueError:
        section.problem("days_from", "a day", shown(value), "Write one such as 2025-07-31.")
        return None


def _owners(rules: Section, case_sensitive: bool) -> Iterator[OwnersRule]:
    for pattern in rules:
        owners = rules.texts(pattern)
        for owner in owners:
            if not _OWNER.fullmatch(owner):
                rules.problem(pattern, "an email address or team:NAME", shown(owner), "Write such as team:data.")
        yield OwnersRule(pattern, _filter(rules, pattern, case_sensitive), owners)


def _tags(rules: Section, case_sensitive: bool) -> Iterator[TagsRule]:
    for pattern in rules:
        tags: Any = rules.raw(pattern)
        if not isinstance(tags, Mapping):
            rules.problem(pattern, "a mapping of tags", shown(tags), "Write {domain: sales}.")
            continue
        for name, value in tags.items():
            if not _TAG_KEY.fullmatch(name) or not isinstance(value, str) or not _TAG.fullmatch(value):
                advice = "Use letters, digits, _, - and ., at most 63; quote numbers."
                rules.problem(pattern, "tags that Dagster accepts", shown(f"{name}: {value}"), advice)
        yield TagsRule(pattern, _filter(rules, pattern, case_sensitive), tuple((n, str(v)) for n, v in tags.items()))


def _filter(rules: Section, pattern: str, case_sensitive: bool) -> TableFilter:
    return rules.checked(pattern, lambda: TableFilter((pattern,), case_sensitive), TableFilter(()))
