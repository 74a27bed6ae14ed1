"""A day in the life of a data team: what is done with a changefeed from its first run on, in one lake.

The stream is one that TiCDC's encoders have written. At every stage the tables are compared with the true rows at the
TSO that they have reached.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from ticdc_assets import spark
from ticdc_assets_tests.commands.called import no_dagster_home as no_dagster_home
from ticdc_assets_tests.commands.diagnose.checkpoint_clock import clock_at_the_checkpoint as clock_at_the_checkpoint
from ticdc_assets_tests.fixtures import CORPUS, Workload
from ticdc_assets_tests.scenarios.stages import FIRST_DAY, Stages
from ticdc_assets_tests.scenarios.team import Team

SETTINGS = {
    "history": ["odd?db.m*"],
    "views": "{schema}__recorded.{table}",
    "dagster": {"days_from": FIRST_DAY},
}

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("no_dagster_home", "clock_at_the_checkpoint")]


@pytest.fixture
def stages(tmp_path: Path, capfd: Any) -> Iterator[Stages]:
    spark.stop()  # another test's session has other settings
    workload = Workload(CORPUS / "fixtures" / "storage-csv-special" / "seed1")
    with dg.DagsterInstance.ephemeral() as instance:
        team = Team(workload, tmp_path, instance, **SETTINGS)
        yield Stages(team, capfd)
    spark.stop()


@pytest.mark.long
def test_tables_equal_the_truth_all_morning(stages: Stages):
    stages.a_new_changefeed_has_its_first_run()
    stages.statements_and_new_tables_arrive()
    stages.a_record_cannot_be_read_and_is_replayed_when_it_is_corrected()
    stages.the_present_is_pinned()
    stages.every_engine_reads_the_pinned_rows()
    stages.views_show_the_newest_record()
    stages.histories_have_every_version()
    stages.all_checks_pass()


@pytest.mark.long
@pytest.mark.matrix
def test_tables_equal_the_truth_all_day(stages: Stages):
    """What the morning leaves out: rebuilds under live runs, the end of the day, compaction and expiry."""
    stages.a_new_changefeed_has_its_first_run()
    stages.statements_and_new_tables_arrive()
    stages.a_record_cannot_be_read_and_is_replayed_when_it_is_corrected()
    stages.the_present_is_pinned()
    stages.a_day_is_read_again_while_a_live_run_publishes()
    stages.a_mirror_is_rebuilt_while_a_live_run_publishes()
    stages.the_day_ends()
    stages.small_files_are_compacted_and_snapshots_expire()
    stages.histories_have_every_version()
    stages.views_show_the_newest_record()
    stages.every_engine_reads_the_pinned_rows()
    stages.the_pin_is_released()
