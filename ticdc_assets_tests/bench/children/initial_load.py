"""An initial load in a child, of a Dumpling export or of a storage sink's inserts: Spark started and warmed up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ticdc_assets import spark
from ticdc_assets.config import Config, load
from ticdc_assets.pipeline.lake import Lake
from ticdc_assets.pipeline.load.source import DumpChanges
from ticdc_assets.pipeline.load.task import DumpRequest
from ticdc_assets.pipeline.run.load import load as load_dump
from ticdc_assets.sources.dump.listing import read_dump
from ticdc_assets.sources.filesystem import open_root
from ticdc_assets.spark import SparkWorkers
from ticdc_assets.tables.iceberg.jvm import JvmCatalog
from ticdc_assets_tests.bench import ours
from ticdc_assets_tests.bench.child import serve
from ticdc_assets_tests.bench.clock import timed
from ticdc_assets_tests.bench.streams import full_table


def measure(scratch: Path, dump: str, bucket: str, warm_up: str) -> dict[str, Any]:
    """Seconds until changelog and mirror have all rows, and the config of their lake. Either `dump` or `bucket` is
    read; the other is empty. `warm_up` is one of the same kind."""
    _load(_config(scratch / "warm_up", bucket and warm_up), "" if bucket else warm_up)
    config = _config(scratch / "lake", bucket)
    spark.session(config)
    spent, _ = timed(lambda: _load(config, dump))
    spark.stop()
    return {**spent.as_dict(), "config": str(config.path)}


def _load(config: Config, dump: str) -> None:
    if not dump:
        ours.again(config)
        return
    lake = Lake(config, config.changefeeds[0])
    source = DumpChanges(lake, DumpRequest(read_dump(open_root(dump)), dump, full_table.TSO))
    workers = SparkWorkers(spark.session(config))
    report = load_dump(lake, source, lambda: workers, lambda: JvmCatalog(spark.session(config), config.catalog.name))
    if report.errors:
        raise AssertionError(report.errors)


def _config(lake: Path, bucket: str) -> Config:
    sink = {"date-separator": "none", "csv": {"include-commit-ts": True}}
    feed = {
        "sink_uri": "file:///x?protocol=csv",
        "config": {"sink": sink},
        "source": {"storage": bucket or str(lake / "no_stream")},
    }
    return load(ours.written_config(lake, feed), {})


if __name__ == "__main__":
    serve(measure)
