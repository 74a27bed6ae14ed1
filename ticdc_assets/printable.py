"""Text for people and programs that shows characters which would act on a terminal or a page."""

from __future__ import annotations

import re
from typing import Final

# Control and format characters, line and paragraph separators, and surrogates without their half: a source's name with
# them would clear a screen, forge a line, or turn the order of what stands beside it.
_ACTING: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0001-\U000e007f\ud800-\udfff]"
)


def printable(text: str) -> str:
    r"""The text on one line, with each such character as `\u001b`. In a JSON string that is the character's escape."""
    return text if text.isprintable() else _ACTING.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
