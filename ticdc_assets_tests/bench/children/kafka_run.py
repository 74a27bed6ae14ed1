"""This project's run from a topic, in a child: landing, then changelog and mirror. Spark is started and warmed up."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from ticdc_assets import spark
from ticdc_assets.config import Config, load
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.landing.land import land
from ticdc_assets.spark import SparkWorkers
from ticdc_assets_tests.bench import ours
from ticdc_assets_tests.bench.child import serve
from ticdc_assets_tests.bench.clock import timed
from ticdc_assets_tests.bench.streams.recorded import FORMS

LAKE: Final = "lake"
"""The folder of the lake."""


def run(scratch: Path, form: str, brokers: str, topic: str, capture: str) -> dict[str, Any]:
    """Seconds and processor seconds of landing and of what follows, and the messages landed. The lake is left below
    `scratch`: whoever counts its rows here would take memory."""
    warm_up = _config(scratch / "warm_up", form, brokers, topic, capture)
    workers = SparkWorkers(spark.session(warm_up))
    land(Lake(warm_up, warm_up.changefeeds[0]), workers)
    ours.again(warm_up)
    config = _config(scratch / LAKE, form, brokers, topic, capture)
    spark.session(config)
    landing, report = timed(lambda: land(Lake(config, config.changefeeds[0]), workers))
    after, _ = timed(lambda: ours.again(config))
    spark.stop()
    return {"landing": landing.as_dict(), "after": after.as_dict(), "messages": report.messages}


def _config(lake: Path, form: str, brokers: str, topic: str, capture: str) -> Config:
    stream = FORMS[form]
    source = {"kafka": {"brokers": [brokers], "topics": [topic]}}
    feed: dict[str, Any] = {"sink_uri": stream.sink_uri, "config": {"sink": dict(stream.sink)}, "source": source}
    if (registry := Path(capture) / "registry.json").exists():
        feed["schema_registry"] = {"file": str(registry)}
    return load(ours.written_config(lake, feed), {})


if __name__ == "__main__":
    serve(run)
