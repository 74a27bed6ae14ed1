"""The exchanges of partitions whose rows a changelog has.

The commit that adds the rows (there may be none) adds the statement's TSO to a property of the changelog.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from ticdc_assets.schema.evolution.evolve import ExchangedRows

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.schema.history.source_table import Version

EXCHANGED: Final = "ticdc.exchanged"


def exchange_in(version: Version) -> ExchangedRows | None:
    """The EXCHANGE PARTITION at the start of a version; None where there is none."""
    return next((effect for effect in version.effects if isinstance(effect, ExchangedRows)), None)


def is_awaited(version: Version, changelog: Table) -> bool:
    """Whether a version starts with an exchange whose rows the changelog lacks."""
    return exchange_in(version) is not None and version.from_ts not in exchanges_of(changelog)


def exchanges_of(changelog: Table) -> list[int]:
    """The TSOs of the exchanges whose rows the changelog has."""
    return [int(ts) for ts in json.loads(changelog.properties.get(EXCHANGED, "[]"))]


def with_exchange(changelog: Table, ts: int) -> dict[str, str]:
    """The changelog's property with one more exchange."""
    return {EXCHANGED: json.dumps(sorted({*exchanges_of(changelog), ts}))}
