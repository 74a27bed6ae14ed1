"""Iceberg through pyiceberg and through its Java API."""
