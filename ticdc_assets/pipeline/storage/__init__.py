"""Buckets of the storage sink as a source of changes: the scan and the plan (the driver), then `decode` (the workers)."""
