"""The results of the checks as plain values: passed or failed, severity, next step. Independent of Dagster.

Every sentence of a failed check ends with what to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ticdc_assets.assets.metadata.sparkline import plain_seconds
from ticdc_assets.errors import rebuild_command
from ticdc_assets.pipeline.commit_range import TableState
from ticdc_assets.plurals import duration

if TYPE_CHECKING:
    from ticdc_assets.assets.checks.fold_count import FoldCount
    from ticdc_assets.assets.clock import Clock
    from ticdc_assets.sources.storage.scan_result import Problem
    from ticdc_assets.tables.control.records import QuarantinedRecord, TableRecord
    from ticdc_assets.tables.foreign_writes import ForeignWrite

_LAG_WARN_S: Final = 5 * 60
_LAG_FAIL_S: Final = 30 * 60
_SHOWN_MAX: Final = 20
_NO_TIME: Final = "The stream has no commit_ts, so its lag is unknown."


@dataclass(frozen=True, slots=True)
class LagLimits:
    """Above `warn_s` a check of a lag warns, above `fail_s` it fails."""

    warn_s: int = _LAG_WARN_S
    fail_s: int = _LAG_FAIL_S

    @classmethod
    def of(cls, max_lag_s: int | None) -> LagLimits:
        """The limits for the configured `max_lag`, with a warning from half of it; the defaults for None."""
        return cls() if max_lag_s is None else cls(max_lag_s // 2, max_lag_s)


DEFAULT_LIMITS: Final = LagLimits()


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one check. `warns` marks a failure that blocks nothing."""

    passed: bool
    sentence: str
    warns: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict)


# -- one table ---------------------------------------------------------------------------------------------------------


def unknown_table_verdict() -> Verdict:
    """For an asset whose table no run has recorded yet, or no longer has this name."""
    sentence = (
        "No run has recorded a table of this name. Run the changefeed if the table is new; if it was dropped or "
        "renamed, reload the code location to remove its assets."
    )
    return Verdict(False, sentence, warns=True)


def not_held(record: TableRecord) -> Verdict:
    """Fails for a stopped table, which a person must repair. Warns for a waiting table, which may continue without
    help."""
    if record.state == TableState.STOPPED:
        where = f"at {record.watermark}" if record.watermark else "before its first change"
        return Verdict(False, f"Stopped {where}: {record.note}")
    if record.state == TableState.WAITING:
        advice = "It continues by itself when that arrives; until then no newer TSO is recorded for all tables."
        return Verdict(False, f"Waiting at {record.watermark}: {record.note} {advice}", warns=True)
    if record.state == TableState.DROPPED:
        detail = (
            f", read up to {record.watermark}: {record.note}" if record.note else "; its changelog has all its changes."
        )
        return Verdict(True, f"Dropped at the source{detail}")
    return Verdict(True, "No run holds it.")


def nothing_quarantined(records: Sequence[QuarantinedRecord], where: str) -> Verdict:
    """Fails while the quarantine holds records of the table: its changelog and mirror lack them."""
    if not records:
        return Verdict(True, "Every record can be decoded.")
    first = records[0]
    place = "" if first.path in first.reason else f"{first.path}, line {first.line}: "
    count = "1 record is" if len(records) == 1 else f"{len(records)} records are"
    sentence = (
        f"{count} kept in {where} and missing from the tables. The first: {place}{first.reason} Correct the config "
        "or the record, then `ticdc-assets replay --quarantine` adds it; or give it up with `--discard "
        f"{first.path}:{first.line}`: changelog and mirror then lack its changes for good."
    )
    since = min(one.since_tso or 0 for one in records)
    return Verdict(False, sentence, facts={"quarantined": len(records), "quarantined_since": since})


def rows_equal(mirror_rows: int | None, count: FoldCount, job: str = "") -> Verdict:
    """Compare the mirror's row count with the fold of its changelog. `job` is the job that rebuilds it.

    Passes with the fact `counted: false` where the rows were not counted.
    """
    is_counted = count.rows is not None and mirror_rows is not None
    facts = {"counted": is_counted, "mirror_rows": mirror_rows, "rows_folded": count.rows}
    if not is_counted:
        return Verdict(True, f"Not counted: {count.reason or 'there is no mirror'}.", facts=facts)
    if count.rows == mirror_rows:
        return Verdict(True, f"{mirror_rows:,} rows, as many as the fold of the changelog.", facts=facts)
    sentence = (
        f"The mirror has {mirror_rows:,} rows, its changelog folds to {count.rows:,}. Do not read the mirror. Find out "
        "who else writes it; then `ticdc-assets rebuild` with its --table rebuilds it from the changelog"
        f"{f', and so does the job {job} with the table in `tables`' if job else ''}. What was written to the mirror "
        "alone is given up."
    )
    return Verdict(False, sentence, facts=facts)


def written_by_runs_alone(
    table: str, changelog: Sequence[ForeignWrite], others: Mapping[str, Sequence[ForeignWrite]], by_arrival: bool
) -> Verdict:
    """Fails where another writer changed rows of the table's changelog, or of its mirror or history (`others`, by
    name)."""
    touched = [name for name, found in others.items() if found]
    if changelog:
        return Verdict(False, changelog_advice(table, changelog, by_arrival), facts={"foreign": len(changelog)})
    if touched:
        found = others[touched[0]]
        sentence = (
            f"{', '.join(touched)}: {_foreign(found)}. Find out who writes it; then {rebuild_command(table)} makes its "
            "rows again from the changelog. What the other writer did is given up."
        )
        return Verdict(False, sentence, facts={"foreign": len(found)})
    return Verdict(True, "No other writer changed rows, as far as snapshots are kept.")


def changelog_advice(table: str, found: Sequence[ForeignWrite], by_arrival: bool) -> str:
    """What to do about a changelog that others wrote. Its mirror must not be rebuilt from it: lost changes would be
    lost there too."""
    before, again = found[-1].before, rebuild_command(table, "source")
    if by_arrival:
        steps = (
            "set the changelog back to the snapshot before if no run has committed since; else read the source in a "
            "changefeed of another name, with another `target`."
        )
    elif before is not None:
        steps = f"set the changelog back to snapshot {before}, the one before; {again} then reads the rest again."
    else:
        steps = f"{again} reads all changes again, and refuses if the source has fewer."
    return (
        f"The changelog: {_foreign(found)}. Find out who writes it, and do not rebuild the mirror from it. If the "
        f"write was not meant: {steps}"
    )


def _foreign(found: Sequence[ForeignWrite]) -> str:
    added, deleted = (sum(getattr(one, name) for one in found) for name in ("rows_added", "rows_deleted"))
    return (
        f"expected commits of runs alone, found {len(found)} of other writers, last in snapshot "
        f"{found[0].snapshot_id}: {added:,} rows added and {deleted:,} removed"
    )


def not_merged_yet(mirror_rows: int, count: FoldCount) -> Verdict:
    """For a mirror that lacks changes of its changelog, as after a run that ended between the two."""
    sentence = (
        f"The mirror has {mirror_rows:,} rows, and {count.rows:,} with the changes that its changelog has and the next "
        "run merges. Run the changefeed; until then, read the mirror at the newest complete record."
    )
    facts = {"counted": True, "mirror_rows": mirror_rows, "rows_folded": count.rows}
    return Verdict(False, sentence, warns=True, facts=facts)


def near_source_checkpoint(record: TableRecord, clock: Clock, limits: LagLimits = DEFAULT_LIMITS) -> Verdict:
    """How far the table is behind the source's checkpoint."""
    behind = clock.behind_source_s(record.watermark)
    if not clock.measures_lag:
        return Verdict(True, _NO_TIME)
    if record.state == TableState.DROPPED:
        return Verdict(True, "Dropped at the source; no more changes arrive.")
    advice = "Look for failed or queued runs of this changefeed, and run it more often or on more cores."
    what = f"{duration(behind)} behind the source's checkpoint"
    return _within(limits, behind, "behind_source_seconds", what, advice)


# -- the whole changefeed ----------------------------------------------------------------------------------------------


def checkpoint_near_clock(clock: Clock, is_sample: bool, limits: LagLimits = DEFAULT_LIMITS) -> Verdict:
    """How far TiCDC is behind the clock. The stream of the packaged sample has ended, so its lag always passes."""
    if not clock.checkpoint:
        advice = "Check with `cdc cli changefeed query` that the changefeed is running and writes here."
        return Verdict(False, f"The source has no checkpoint yet. {advice}", warns=True)
    if not clock.measures_lag:
        return Verdict(True, _NO_TIME)
    lag = clock.lag_s(clock.checkpoint)
    if is_sample:
        return Verdict(True, f"The sample's stream ended {duration(lag)} ago; its lag always passes.")
    advice = "Check with `cdc cli changefeed query` that the changefeed is running and writes here."
    return _within(
        limits, lag, "behind_clock_seconds", f"The source's checkpoint is {duration(lag)} behind the clock", advice
    )


def _within(limits: LagLimits, seconds: float, fact: str, what: str, advice: str) -> Verdict:
    text = f"warns above {duration(limits.warn_s)}, fails above {duration(limits.fail_s)}"
    facts = {fact: plain_seconds(seconds), "limits": text}
    if seconds <= limits.warn_s:
        return Verdict(True, f"{what}.", facts=facts)
    return Verdict(False, f"{what}. {advice}", warns=seconds <= limits.fail_s, facts=facts)


def no_table_held(records: Iterable[TableRecord]) -> Verdict:
    """One held table holds back the recorded TSO of all tables."""
    held = [r for r in records if r.state in (TableState.STOPPED, TableState.WAITING)]
    if not held:
        return Verdict(True, "No table is held.")
    listed = "; ".join(f"{r.schema}.{r.table} {r.state}: {r.note}" for r in held[:_SHOWN_MAX])
    more = f"; and {len(held) - _SHOWN_MAX} more" if len(held) > _SHOWN_MAX else ""
    sentence = f"{len(held)} held, so no newer TSO is recorded for all tables together: {listed}{more}"
    return Verdict(False, sentence, warns=all(r.state == TableState.WAITING for r in held), facts={"held": len(held)})


def tables_have_assets(sentence: str) -> Verdict:
    """`sentence` names the tables without an asset in the loaded definitions; "" without one."""
    return Verdict(not sentence, sentence or "Every table has its assets.", warns=True)


def no_late_rows(late: Mapping[str, int], gap: tuple[int, int] | None = None) -> Verdict:
    """`late` is the number of late rows that a run took in, by table; `gap` ends where that run began."""
    if gap is not None:
        sentence = (
            f"No changes are known between {gap[0]} and {gap[1]}: `ticdc-assets resync --all` brought the tables to "
            "what TiDB had then. The first run after it says so, later ones do not."
        )
        return Verdict(False, sentence, warns=True, facts={"gap_from": gap[0], "gap_until": gap[1]})
    if not late:
        return Verdict(True, "No row is late.")
    listed = ", ".join(f"{name} {rows:,}" for name, rows in sorted(late.items())[:_SHOWN_MAX])
    more = f" and {len(late) - _SHOWN_MAX} more" if len(late) > _SHOWN_MAX else ""
    sentence = (
        f"Late rows were added, at or below the watermarks of their tables: {listed}{more}. Changelogs and "
        "mirrors have them now; snapshots that were recorded before lack them. Check whether files are copied to the "
        "source after its `metadata`, or whether a partition or topic joined the capture."
    )
    return Verdict(False, sentence, warns=True, facts={"late_rows": sum(late.values())})


def no_gaps(problems: Sequence[Problem], strays: Sequence[str] = ()) -> Verdict:
    """Fails for files that TiCDC must have written and that are missing or incomplete (`problems`), and for files that
    are not recognised as TiCDC's and so are not read (`strays`)."""
    if strays and not problems:
        listed = "; ".join(strays[:_SHOWN_MAX])
        more = f"; and {len(strays) - _SHOWN_MAX} more" if len(strays) > _SHOWN_MAX else ""
        advice = (
            "Nothing of it is read: remove it, or check with `ticdc-assets inspect` whether the changefeed has options "
            "that are not given here."
        )
        return Verdict(False, f"{listed}{more}. {advice}", warns=True, facts={"not_read": len(strays)})
    if not problems:
        return Verdict(True, "Every file that the index files name exists.")
    listed = "; ".join(p.sentence for p in problems[:_SHOWN_MAX])
    more = f"; and {len(problems) - _SHOWN_MAX} more" if len(problems) > _SHOWN_MAX else ""
    waits = all(str(p.kind) == TableState.WAITING for p in problems)
    return Verdict(False, f"{listed}{more}", warns=waits, facts={"problems": len(problems)})
