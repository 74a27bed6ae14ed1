"""The required ratios of measurements made side by side: rows per second depend on the machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True)
class Target:
    """A ratio or an amount, and the side of it that is good."""

    what: str
    side: Literal[">=", "<="]
    bound: float
    unit: str = "x"

    def line(self, value: float) -> str:
        """The verdict on a measured value."""
        verdict = "met" if self.met(value) else "MISSED"
        return f"{self.what:78} {value:>8.2f} {self.unit:4} target {self.side} {self.bound:<5g} {verdict}"

    def met(self, value: float) -> bool:
        return value >= self.bound if self.side == ">=" else value <= self.bound


_LOAD: Final = "storage Canal-JSON to changelog and mirror, against"

PEERS: Final = {
    "pyspark_by_hand": Target(f"{_LOAD} hand-written PySpark", ">=", 6),
    "flink_sql": Target(f"{_LOAD} Flink SQL", ">=", 4),
    "plain_python": Target(f"{_LOAD} a plain Python loop", ">=", 3),
    "duckdb_parquet": Target(f"{_LOAD} DuckDB to one Parquet file", ">=", 1.3),
}
CSV: Final = Target("storage CSV to changelog and mirror, against our own Canal-JSON", ">=", 1.8)
BULK: Final = {
    "canal-json-tidb": Target("captured Canal-JSON to changelog, bulk against reference", ">=", 3),
    "open": Target("captured Open Protocol to changelog, bulk against reference", ">=", 3),
    "simple-json": Target("captured Simple JSON to changelog, bulk against reference", ">=", 3),
    "simple-avro": Target("captured Simple Avro to changelog, bulk against reference", ">=", 1.5),
    "avro": Target("captured Avro to changelog, bulk against reference", ">=", 5),
}
_MESSAGES: Final = "messages to changelog and mirror, against our own Canal-JSON files"
MESSAGES: Final = {
    "canal-json-tidb": Target(f"Canal-JSON {_MESSAGES}", ">=", 0.6),
    "open": Target(f"Open Protocol {_MESSAGES}", ">=", 0.6),
    "simple-json": Target(f"Simple JSON {_MESSAGES}", ">=", 0.6),
    "simple-avro": Target(f"Simple Avro {_MESSAGES}", ">=", 0.5),
    "avro": Target(f"Avro {_MESSAGES}", ">=", 0.5),
}
SLOWEST: Final = Target("rows/s of the slowest message protocol, against Canal-JSON", ">=", 0.5)
LANDING: Final = Target("Kafka to `messages`, against Spark's Kafka source to Iceberg", ">=", 2)
FLINK_LANDED: Final = Target("`messages` to changelog and mirror, against Flink SQL from Kafka to Iceberg", ">=", 2)
FLINK_KAFKA: Final = Target("Kafka to `messages`, changelog and mirror, against Flink SQL to Iceberg", ">=", 4)
INITIAL_LOAD: Final = Target("rows/s of a Dumpling export, against the same rows as inserts in CSV", ">=", 0.8)
INCREMENTAL: Final = Target("seconds of a round of changes, against a bare MERGE of ready Parquet", "<=", 1.3)
TICK: Final = Target("seconds of a sensor's tick with nothing new", "<=", 2, "s")
IDLE_RUN: Final = Target("seconds of a run with nothing new, start of its interpreter included", "<=", 2, "s")
IDLE_JVM: Final = Target("JVMs that they start", "<=", 0, "")
MEMORY: Final = Target("peak memory at 10 times the events", "<=", 1.1)
PER_TABLE: Final = Target("seconds a table, changelog and mirror, of many tables", "<=", 0.08, "s")
MANY_DECODE: Final = Target("decode stage of many tables, against one table with as many changes", "<=", 3)
SMALL_FILE: Final = Target("ms a file, changelog and mirror, of many files of 5 rows", "<=", 0.7, "ms")
EARLIER_RUNS: Final = Target("processor time of a run after 2,000 earlier ones, against one after 20", "<=", 1.2)
FIRST_RUN_SPARE_S: Final = 2
FIRST_RUN: Final = Target("seconds of a first run of a few rows less 2 s, against a bare SparkSession", "<=", 1.4)
FIRST_RUN_PREPARED: Final = Target("the same with an archive of classes", "<=", 1.4)
