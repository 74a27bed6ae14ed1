"""A sensor's tick that finds nothing new, where the definitions are loaded, as they are in Dagster's code server."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import dagster as dg

from ticdc_assets.assets.graph import definitions_of
from ticdc_assets.config import load
from ticdc_assets_tests.bench.child import serve


def tick(scratch: Path, config: str) -> dict[str, Any]:
    """Seconds of the first tick, which asks for a run, and of the one after it."""
    repository = definitions_of(load(Path(config), os.environ)).get_repository_def()
    [sensor] = repository.sensor_defs
    seconds, cursor = [], None
    with dg.DagsterInstance.local_temp(str(scratch)) as instance:
        for requests in (1, 0):
            context = dg.build_sensor_context(instance=instance, cursor=cursor, repository_def=repository)
            begin = time.perf_counter()
            answer = sensor(context)
            seconds.append(time.perf_counter() - begin)
            if not isinstance(answer, dg.SensorResult):
                raise AssertionError(f"a tick answered {answer}")
            asked = len(answer.run_requests or ())
            if asked != requests:
                raise AssertionError(f"a tick asked for {asked} runs, not {requests}")
            cursor = answer.cursor
    return {"first_s": seconds[0], "idle_s": seconds[1]}


if __name__ == "__main__":
    serve(tick)
