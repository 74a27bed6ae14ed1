"""Workloads of whole databases on a TiDB server, with all tables as they were at the TSO of every step.

A workload is one line of JSON: {id (its database), mode, zone, steps}. A step is what happened at the TSO `ts`: {sql,
type, infos} of a DDL job, or {} where a transaction was committed; `type` is TiDB's number of the action, `infos` are
the tables as the job left them. `tables` are what was different at that TSO from the step before: by name {columns,
unique, rows} as `Session` reads them, or null for a table that is gone. Rows are read in UTC,
by a session of its own with `tidb_snapshot` at `ts`; statements and transactions are of a session of `mode` and `zone`.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from ticdc_assets_tests.tidb.recording import History
from ticdc_assets_tests.tidb.server import LOOSE, Snapshots, Tidb
from ticdc_assets_tests.tidb.workloads import table_info
from ticdc_assets_tests.tidb.workloads.statements import Statements

STRICT = f"STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,{LOOSE}"
MODES = (LOOSE, STRICT, f"STRICT_TRANS_TABLES,{LOOSE}", f"NO_UNSIGNED_SUBTRACTION,PIPES_AS_CONCAT,{LOOSE}")
ZONES = ("UTC", "Asia/Shanghai", "America/St_Johns", "Asia/Kolkata")
STEPS = 48
Tables = dict[str, dict[str, Any]]


class Recorder:
    """Runs statements in one database, and reads all of its tables at the TSO of each."""

    def __init__(self, tidb: Tidb, snapshots: Snapshots) -> None:
        self._tidb = tidb
        self._snapshots = snapshots
        self._committed = tidb.last_commit_ts()
        self._seen: Tables = {}
        self.steps: list[dict[str, Any]] = []

    def execute(self, statement: str) -> bool:
        """Run a statement; whether the server took it as a job on this database.

        A step is dated as TiCDC dates it: when the job finished.
        """
        before = self._tidb.last_job()
        if not self._tidb.takes(statement):
            return False
        jobs = self._tidb.jobs(before)
        for job in jobs:
            told = job["binlog"]
            infos = told["MultipleTableInfos"] or [told["TableInfo"]]
            step = {"sql": job["query"], "type": job["type"], "infos": [table_info.recorded(i) for i in infos if i]}
            self._note(step, told["FinishedTS"])
        return bool(jobs)

    def transact(self, statements: list[str]) -> None:
        """One transaction; statements that the server refuses are left out."""
        self._tidb.run("BEGIN")
        for statement in statements:
            self._tidb.takes(statement)
        if not self._tidb.takes("COMMIT"):
            self._tidb.run("ROLLBACK")
        commit_ts = self._tidb.last_commit_ts()
        if commit_ts > self._committed:  # a transaction that wrote nothing leaves the one before
            self._committed = commit_ts
            self._note({}, commit_ts)

    def _note(self, step: dict[str, Any], ts: int) -> None:
        """UnicodeDecodeError where rows hold bytes that are no text: the workload ends before them."""
        found = self._snapshots.tables_at(ts)
        tables: dict[str, Any] = {name: None for name in self._seen if name not in found}
        for name, table in found.items():
            old = self._seen.get(name, {})
            changed = {key: value for key, value in table.items() if old.get(key) != value}
            tables |= {name: changed} if changed else {}
        if not tables and "sql" not in step:
            return
        self._seen = found
        self.steps.append({"ts": ts, **step, "tables": tables})


class RandomWorkload:
    """One database under random statements and transactions, one of which each `go_on` makes."""

    def __init__(self, database: str, zone: str, mode: str, random: Random) -> None:
        self._tidb, self._snapshots = Tidb(database, zone, mode), Snapshots(database)
        self._random = random
        self._statements = Statements(random)
        self._recorder = Recorder(self._tidb, self._snapshots)
        self.is_over = False

    def go_on(self) -> None:
        try:
            if self._statements.tables and self._random.random() < 0.5:
                self._recorder.transact(self._statements.transaction())
            else:
                self._execute()
        except UnicodeDecodeError:  # a loose sql_mode lets bytes in that are no text
            self.is_over = True
        self.is_over |= len(self._recorder.steps) >= STEPS

    def _execute(self) -> None:
        """A statement, or others in its place until the server takes one."""
        for _ in range(6):
            candidate = self._statements.statement()
            if self._recorder.execute(candidate.sql):
                candidate.note()
                return

    def end(self) -> list[dict[str, Any]]:
        self._tidb.close()
        self._snapshots.close()
        return self._recorder.steps


def workloads(zone: str, count: int, seed: int) -> list[History]:
    """So many databases of one zone, side by side."""
    modes = [MODES[number % len(MODES)] for number in range(count)]
    made = [RandomWorkload(f"w{n}", zone, mode, Random(f"{seed} {zone} {n}")) for n, mode in enumerate(modes)]
    while going := [one for one in made if not one.is_over]:
        for one in going:
            one.go_on()
    return [{"id": f"w{n}", "mode": modes[n], "zone": zone, "steps": one.end()} for n, one in enumerate(made)]


def histories(_: Tidb, count: int, seed: int) -> Iterator[History]:
    """Workloads of all zones."""
    for zone in ZONES:
        yield from workloads(zone, count, seed)
