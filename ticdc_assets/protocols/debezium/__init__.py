"""Debezium JSON as TiCDC writes it."""
