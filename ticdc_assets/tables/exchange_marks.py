"""Which exchanges of partitions a changelog has the rows of.

The commit that brings the rows, of which there may be none, notes the statement's TSO in the table's properties.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from ticdc_assets.schema.evolution import ExchangedRows

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.schema.lineage import Version

EXCHANGED: Final = "ticdc.exchanged"


def exchange_in(version: Version) -> ExchangedRows | None:
    """The exchange that began a version."""
    return next((effect for effect in version.effects if isinstance(effect, ExchangedRows)), None)


def is_awaited(version: Version, changelog: Table) -> bool:
    """Whether a version began with an exchange whose rows the changelog has not."""
    return exchange_in(version) is not None and version.from_ts not in exchanges_of(changelog)


def exchanges_of(changelog: Table) -> list[int]:
    """The TSOs of the exchanges whose rows it has."""
    return [int(ts) for ts in json.loads(changelog.properties.get(EXCHANGED, "[]"))]


def with_exchange(changelog: Table, ts: int) -> dict[str, str]:
    """The property of the changelog with one more exchange."""
    return {EXCHANGED: json.dumps(sorted({*exchanges_of(changelog), ts}))}
