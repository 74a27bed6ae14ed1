"""How much of a table a comparison with TiDB has: the whole, a sample of its ranges, or the keys that changed.

`verified` keeps the ranges of each table with the TSOs at which they were compared. A sample has those that were
compared longest ago, at random among equals, so that repeated samples reach every row.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from ticdc_assets.changes import layout
from ticdc_assets.changes.differences import TsoRange, now_name
from ticdc_assets.pipeline.history.changes import ChangelogRange
from ticdc_assets.pipeline.history.tables import version_after

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from ticdc_assets.pipeline.history.verification import Comparison, TableVerification
    from ticdc_assets.schema.history.source_table import SourceTable
    from ticdc_assets.sources.upstream.key_ranges import Key, KeyOrder
    from ticdc_assets.sources.upstream.ranges import Range
    from ticdc_assets.tables.control.records import VerifiedTable


class ExtentKind(StrEnum):
    """How much is compared."""

    WHOLE = "whole"
    SAMPLE = "sample"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class Sample:
    """A number of ranges, or a percentage of a table's ranges; at least one range."""

    number: float
    is_percent: bool

    @classmethod
    def of(cls, text: str) -> Sample:
        """The sample that is written `10` or `2.5%`. Raises ValueError for another text."""
        number = float(text.removesuffix("%"))
        is_percent = text.endswith("%")
        if not 0 < number < (100.1 if is_percent else math.inf) or (not is_percent and number != int(number)):
            raise ValueError(text)
        return cls(number, is_percent)

    def count(self, ranges: int) -> int:
        """How many of so many ranges."""
        return max(1, math.ceil(ranges * self.number / 100 if self.is_percent else self.number))


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is asked for; without a sample and without `changed` the whole of each table."""

    sample: Sample | None = None
    changed: bool = False


@dataclass(frozen=True, slots=True)
class Compared:
    """What was compared; `ranges` are all ranges of the table, as `verified` keeps them."""

    kind: ExtentKind
    comparison: Comparison
    compared_ranges: int
    ranges: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class TableExtent:
    """Compares as much of one table as is asked for. `previous` are the comparisons before, the newest first."""

    work: TableVerification
    source_table: SourceTable
    tso: int
    previous: Sequence[VerifiedTable]

    def compare(self, extent: Extent, changelog: Table | None, zone: str) -> Compared:
        """The comparison. A table of which no whole was found equal since its newest statement is compared as a whole
        where changes are asked for, and so is one whose keys have no ranges in the lake."""
        since = [one for one in self.previous if one.tso <= self.tso and self._is_of_this_version(one.tso)]
        kept = next((one.ranges for one in since if one.ranges), [])
        if extent.changed and changelog is not None and (base := self._base(since)) is not None:
            found = self.work.compare_keys(self._changed_keys(changelog, base, zone))
            return Compared(ExtentKind.CHANGED, found, 0, kept)
        if extent.sample is not None and self.work.order.in_lake:
            return self._sample(extent.sample, kept)
        ranges = list(self.work.ranges())
        return Compared(ExtentKind.WHOLE, self.work.compare(ranges), len(ranges), self._written(ranges, {*ranges}, {}))

    def _is_of_this_version(self, tso: int) -> bool:
        versions = (version_after(self.source_table, of) for of in (tso, self.tso))
        return len({version.from_ts for version in versions}) == 1

    @staticmethod
    def _base(since: Sequence[VerifiedTable]) -> int | None:
        """The TSO up to which all rows were equal."""
        whole = (one.tso for one in since if one.is_equal and one.extent != ExtentKind.SAMPLE)
        return next(whole, None)

    def _sample(self, sample: Sample, kept: list[dict[str, Any]]) -> Compared:
        order = self.work.order
        ranges, tsos = _read(order, kept) if kept else (list(self.work.ranges()), {})
        shuffled = random.sample(ranges, len(ranges))
        chosen = {*sorted(shuffled, key=lambda one: tsos.get(one, 0))[: sample.count(len(ranges))]}
        # A range may have grown since it was cut.
        cut = {one: list(self.work.ranges([one])) for one in ranges if one in chosen}
        compared = [part for one in ranges for part in cut.get(one, [])]
        found = self.work.compare(compared)
        present = [part for one in ranges for part in cut.get(one, [one])]
        return Compared(ExtentKind.SAMPLE, found, len(compared), self._written(present, {*compared}, tsos))

    def _written(self, ranges: Sequence[Range], compared: set[Range], tsos: dict[Range, int]) -> list[dict[str, Any]]:
        order = self.work.order
        if not order.in_lake:
            return []
        return [
            {
                "until": None if one[1] is None else order.written(one[1]),
                "tso": self.tso if one in compared else tsos.get(one, 0),
            }
            for one in ranges
        ]

    def _changed_keys(self, changelog: Table, after: int, zone: str) -> list[Key]:
        reading = ChangelogRange(changelog, self.source_table, TsoRange(after, self.tso), zone)
        table = version_after(self.source_table, self.tso).table
        names = [now_name(column.uid) for column in table.ordered_key]
        keys: dict[Key, None] = {}
        for batch in reading.batches(f"{layout.COMMIT_TS} > {after} and {layout.COMMIT_TS} <= {self.tso}"):
            keys |= dict.fromkeys(zip(*(batch.column(name).to_pylist() for name in names), strict=True))
        return list(keys)


def _read(order: KeyOrder, kept: list[dict[str, Any]]) -> tuple[list[Range], dict[Range, int]]:
    """The ranges that were kept, and the TSOs at which they were compared."""
    ends = [None if one["until"] is None else order.read(one["until"]) for one in kept]
    ranges: list[Range] = list(zip([None, *ends], ends, strict=False))
    return ranges, dict(zip(ranges, (one["tso"] for one in kept), strict=True))
