"""Buckets of the storage sink as a source of changes: scan and plan (the driver), then `decode` (workers)."""
