"""From bytes to events, one module a protocol. Pure: no Spark, Dagster, Iceberg, network, clock or logging."""
