"""The stages of a day with a changefeed. Each ends with tables that equal the truth."""

from __future__ import annotations

import json
from typing import Any

from ticdc_assets.failpoints import Failpoint
from ticdc_assets_tests.pipeline.faults.raced import at
from ticdc_assets_tests.pipeline.history_tables.compared import compared
from ticdc_assets_tests.scenarios.readings import readings_that_differ
from ticdc_assets_tests.scenarios.team import Team

FIRST_DAY = "2025-08-01"
PIN = "noon"
REBUILT = "odd-db.modify2"


class Stages:
    """What a team does with the recorded stream `storage-csv-special`, in this order; stages may be left out."""

    def __init__(self, team: Team, capfd: Any) -> None:
        self._team, self._capfd = team, capfd
        self._moments = sorted({entry["ts"] for entry in team.workload.truth})
        self._pinned = 0

    def a_new_changefeed_has_its_first_run(self) -> None:
        self._team.deliver(self._moments[0])
        self._team.reload()

        assert self._team.follow() == set()

        self._equals_the_truth()

    def statements_and_new_tables_arrive(self) -> None:
        """ADD, DROP and MODIFY COLUMN, TRUNCATE, CREATE TABLE, and two tables that swap their names."""
        self._team.deliver(self._moments[5])

        assert self._team.follow() == {"watermarks/tables_have_assets"}

        self._team.reload()
        assert self._team.skips() == "Nothing new at the source."
        self._equals_the_truth()

    def a_record_cannot_be_read_and_is_replayed_when_it_is_corrected(self) -> None:
        self._team.deliver(self._moments[6])
        file = self._team.file_of("odd-db.addcol2")
        file.write_bytes(file.read_bytes().replace(b'"I"', b'"?"', 1))

        assert "quarantine/quarantine_is_empty" in self._team.follow()

        assert self._failed("ERROR") == {"addcol2/nothing_quarantined", "quarantine/quarantine_is_empty"}
        assert [line.split(":")[0] for line in self._wrong()] == ["odd-db.addcol2"]
        [record] = self._team.lake.lake.control.quarantined()
        corrected = self._team.lake.config.path.with_name("corrected.csv")
        corrected.write_bytes(record.raw.replace(b'"?"', b'"I"', 1))
        which = f"{record.path}:{record.line}"
        assert self._team.call("replay", "--quarantine", "--record", which, "--with", str(corrected)) == 0
        assert self._team.call("run") == 0
        self._team.reload()
        self._equals_the_truth()

    def the_present_is_pinned(self) -> None:
        self._pinned = self._team.checkpoint
        assert self._team.job("feed_as_of", at=str(self._pinned), pin=PIN).success

    def every_engine_reads_the_pinned_rows(self) -> None:
        assert self._pinned in self._moments
        assert readings_that_differ(self._team.lake, self._pinned) == {}

    def a_day_is_read_again_while_a_live_run_publishes(self) -> None:
        """A run appends to the day when the rebuild has decoded it and before it replaces it."""
        before = self._team.lake.changes()
        self._team.deliver(self._moments[8])

        with at(Failpoint.DECODED, self._team.live_run):
            options = {"tables": [REBUILT], "from": "source", "day": FIRST_DAY}
            assert self._team.job("feed_rebuild", **options).success

        assert (before - self._team.lake.changes()).total() == 0
        self._equals_the_truth()

    def a_mirror_is_rebuilt_while_a_live_run_publishes(self) -> None:
        self._team.deliver(self._moments[9])

        with at(Failpoint.BEFORE_MIRROR_COMMIT, self._team.live_run):
            assert self._team.job("feed_rebuild", tables=[REBUILT]).success

        self._team.reload()
        self._equals_the_truth()

    def the_day_ends(self) -> None:
        """Keys are added and dropped, partitions removed, tables renamed in chains and between databases, and the first
        commits of the next day close the day."""
        for moment in self._moments[12::2]:
            self._team.deliver(moment)
            self._team.follow()
            self._team.reload()
            self._equals_the_truth()
        assert self._team.closed_days() == {FIRST_DAY}

    def small_files_are_compacted_and_snapshots_expire(self) -> None:
        report = self._team.maintain_later()

        assert report.left_alone == {}
        assert report.compacted != {}
        assert report.snapshots > 0
        assert report.records > 0
        self._equals_the_truth()

    def views_show_the_newest_record(self) -> None:
        assert self._team.views_that_differ() == []

    def the_pin_is_released(self) -> None:
        assert self._team.call("snapshot", "--release", PIN) == 0
        assert self._team.maintain_later().snapshots > 0
        self._equals_the_truth()

    def histories_have_every_version(self) -> None:
        assert compared(self._team.lake, self._team.workload, self._team.checkpoint) == []

    def all_checks_pass(self) -> None:
        assert self._failed("ERROR") | self._failed("WARN") == set()
        assert self._team.call("check") == 0

    # -- what is there ------------------------------------------------------------------------------------------------

    def _equals_the_truth(self) -> None:
        assert self._team.checkpoint in self._moments
        assert self._wrong() == []

    def _wrong(self) -> list[str]:
        return self._team.lake.differences(self._team.checkpoint)

    def _failed(self, severity: str) -> set[str]:
        """The checks of `ticdc-assets check` that fail with a severity."""
        self._capfd.readouterr()
        self._team.call("check", "--json")
        found = json.loads(self._capfd.readouterr().out)
        failed = [check for check in found if not check["passed"] and check["severity"] == severity]
        return {f"{check['asset'].split('/')[-1]}/{check['check']}" for check in failed}
