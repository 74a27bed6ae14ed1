"""Values as Dagster's pages show them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ticdc_assets.printable import printable


def shown(value: Any) -> Any:
    """The value with every text in it printable: names of a source may have characters that act on a page."""
    match value:
        case str():
            return printable(value)
        case Mapping():
            return {shown(key): shown(each) for key, each in value.items()}
        case list() | tuple():
            return type(value)(map(shown, value))
        case _:
            return value
