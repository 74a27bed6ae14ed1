"""Spark: the session of this process, and the distribution of work to its workers. Importing it starts no JVM."""

from ticdc_assets.spark.sessions import (
    LazySparkWorkers,
    forget_dead_session,
    is_running,
    session,
    start_ahead,
    stop,
    workers_of,
)
from ticdc_assets.spark.workers import LocalWorkers, SparkWorkers, Workers

__all__ = [
    "LazySparkWorkers",
    "LocalWorkers",
    "SparkWorkers",
    "Workers",
    "forget_dead_session",
    "is_running",
    "session",
    "start_ahead",
    "stop",
    "workers_of",
]
