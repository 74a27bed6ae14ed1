"""Renames of one statement whose schema files a storage sink has overwritten.

TiDB gives the parts of a RENAME of several tables their final names, and TiCDC names the schema file of a part after
it: of `RENAME TABLE t1 TO tmp, t2 TO t1, tmp TO t2`, the first and the third part are one file of t2, in which the
third stays. What is left shows that t1 lost its name, and that a table of certain columns came from a name that none
had. Where one table fits, it is this one; else the tables of the statement stop before it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from ticdc_assets.schema.ddl_event import DdlEvent
from ticdc_assets.schema.history.fold.state import FoldState
from ticdc_assets.schema.history.fold.statements import add_described
from ticdc_assets.schema.history.renames import Rename
from ticdc_assets.schema.history.schema_compare import same_columns
from ticdc_assets.schema.history.session_names import listed
from ticdc_assets.schema.history.source_table import SourceName, fold_name


def with_sources(state: FoldState, renames: list[Rename]) -> list[Rename]:
    """The renames, each with the name that its table had before the statement; without those of a statement that does
    not show which table is which. The tables of these stop."""
    parts = [(event, (old, (event.schema, event.table))) for event, (old, _) in renames if _is_part(event)]
    if not parts:
        return renames
    others = [rename for rename in renames if not _is_part(rename[0])]
    sources = _Sources.of(state, parts)
    reason, involved = sources.doubt()
    if not reason:
        for name in sources.found.values():
            if name not in state.live:
                add_described(state, name)
        return [*others, *((event, (sources.found.get(new, old), new)) for event, (old, new) in parts)]
    for event, (old, _) in parts:
        for name in {fold_name(*old), *involved} & state.live.keys():
            state.stop(state.live[name], event, reason)
        state.stop_subject(event, reason, rows_are_missing=True)
    return others


def _is_part(event: DdlEvent) -> bool:
    """Whether the event is a schema file of a RENAME of several tables: TiCDC ends each part with a semicolon."""
    return event.hints.version == event.commit_ts and event.query.rstrip().endswith(";")


@dataclass(frozen=True, slots=True)
class _Sources:
    """Which table each part of a statement renames.

    lost: the names that tables lost, as other tables have them now.
    unclear: the parts whose old name is that of no table, or of several parts.
    found: of unclear parts, the lost name by the new one.
    """

    state: FoldState
    renamed: frozenset[SourceName]
    lost: tuple[SourceName, ...]
    unclear: tuple[Rename, ...]
    found: dict[SourceName, SourceName] = field(default_factory=dict)

    @classmethod
    def of(cls, state: FoldState, parts: list[Rename]) -> _Sources:
        """The sources of all parts of a statement."""
        olds = Counter(fold_name(*old) for _, (old, _) in parts)
        news = {fold_name(*new) for _, (_, new) in parts}
        exist = {name for name in {*olds, *news} if name in state.live or state.described(name)}
        renamed = frozenset(old for old, count in olds.items() if count == 1 and (old in exist or old in news))
        lost = sorted(name for name in exist if name not in renamed and (name in news or olds[name] > 1))
        sources = cls(state, renamed, tuple(lost), tuple(p for p in parts if fold_name(*p[1][0]) not in renamed))
        for part in sources.unclear:
            fitting = [name for name in lost if sources.fits(name, part)]
            if len(fitting) == 1 and sum(sources.fits(fitting[0], other) for other in sources.unclear) == 1:
                sources.found[part[1][1]] = fitting[0]
        return sources

    def fits(self, name: SourceName, part: Rename) -> bool:
        """Whether the table of this name may be the one of the part. The columns of a stopped table are not known.

        A table that takes its own name again must get another spelling: else the file of another part is missing.
        """
        sent, builder = part[0].after, self.state.live.get(name)
        if builder is not None and builder.name == part[1][1]:
            return False
        table = builder.shape.table if builder is not None else self.state.known.tables[name]
        is_stopped = builder is not None and builder.stop is not None
        return is_stopped or sent is None or same_columns(table, sent, ordered=builder is not None)

    def doubt(self) -> tuple[str, list[SourceName]]:
        """Why the statement does not show which table is which, and of which tables; "" where it does."""
        homeless = [name for name in self.lost if name in self.state.live and name not in self.found.values()]
        left = [part for part in self.unclear if part[1][1] not in self.found]
        now = listed(new for _, (_, new) in left)
        if homeless and not left:
            return (
                f"{_LOST}, and none shows what {listed(homeless)} is now. Restore the file if it is missing",
                homeless,
            )
        if homeless:
            return f"{_LOST}, and the others do not show whether {listed(homeless)} is now {now}", homeless
        candidates = [
            name
            for name in sorted(self.state.live.keys() - self.renamed - set(self.found.values()))
            if self.state.live[name].stop is None and any(self.fits(name, part) for part in left)
        ]
        if not left or not candidates:
            return "", []
        older = listed(old for _, (old, _) in left)
        advice = f"If it was {older}, older than the stream, give the CREATE TABLE of {older} in `schema_files`"
        return (
            f"{_LOST}, and the others do not show whether {now} was {listed(candidates)} before. {advice}",
            candidates,
        )


_LOST = "a storage sink overwrites schema files of a RENAME of several tables in which a name is used twice"
