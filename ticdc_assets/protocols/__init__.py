"""Decoders: bytes to events, one package per protocol. No Spark, Dagster, Iceberg, network, clock or logging."""
