"""The Spark session that the peers on Spark start: the same settings and versions as this project's own."""

from __future__ import annotations

import time
from pathlib import Path

import yaml
from pyspark.sql import SparkSession

from ticdc_assets import spark
from ticdc_assets.config import load


def start(scratch: Path, cores: int, packages: str = "") -> tuple[float, SparkSession]:
    """Seconds to a session with a catalog `lake` below `scratch`, and the session; with more Maven `packages`."""
    catalog = {"name": "lake", "type": "sql", "uri": f"sqlite:///{scratch}/catalog.db", "warehouse": f"{scratch}/lake"}
    feed = {"sink_uri": "file:///x?protocol=canal-json&enable-tidb-extension=true", "source": {"storage": "/x"}}
    settings = {"master": f"local[{cores}]", "conf": {"spark.jars.packages": packages} if packages else {}}
    path = scratch / "changefeeds.yaml"
    path.write_text(yaml.safe_dump({"catalog": catalog, "spark": settings, "changefeeds": {"peer": feed}}))
    begin = time.perf_counter()
    session = spark.session(load(path, {}))
    session.sql("CREATE NAMESPACE IF NOT EXISTS lake.bench")
    return time.perf_counter() - begin, session
