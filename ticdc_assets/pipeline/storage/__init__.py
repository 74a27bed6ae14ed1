"""Buckets of the storage sink as a source of changes."""
