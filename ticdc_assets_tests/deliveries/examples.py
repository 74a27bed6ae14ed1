"""The number and seed of a state machine's examples, and the command that repeats a failed one."""

from __future__ import annotations

import os
import sys

from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from ticdc_assets_tests.deliveries.memory_lake import small_and_cheap
from ticdc_assets_tests.deliveries.wires import WIRES

EXAMPLES = int(os.environ.get("TICDC_ASSETS_DELIVERIES", "240"))
"""How many examples there are, over all protocols of messages and of storage."""
NUMBER = int(os.environ.get("TICDC_ASSETS_DELIVERIES_SEED", "0"))
"""Which ones: another number gives other examples."""
STEPS_MAX = 6
MACHINES = len(WIRES) + 2


def deliver(machine: type[RuleBasedStateMachine]) -> None:
    """Run a state machine through its part of all examples."""
    chosen = settings(
        max_examples=-(-EXAMPLES // MACHINES),
        stateful_step_count=STEPS_MAX,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
    )
    try:
        with small_and_cheap():
            run_state_machine_as_test(seed(NUMBER)(machine), settings=chosen)
    except Exception as error:
        test = os.environ.get("PYTEST_CURRENT_TEST", "").partition(" ")[0]
        error.add_note(
            f"Again: TICDC_ASSETS_DELIVERIES={EXAMPLES} TICDC_ASSETS_DELIVERIES_SEED={NUMBER} "
            f"{sys.executable} -m pytest '{test}'"
        )
        raise
