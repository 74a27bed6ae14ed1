"""Offsets that the user gives up, written as `topic[partition]@first-last`."""

from __future__ import annotations

import re
from typing import Final

from ticdc_assets.config.model import OffsetRule
from ticdc_assets.config.reading import shown
from ticdc_assets.errors import ConfigError

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
