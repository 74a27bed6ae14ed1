"""Snapshots and files that are no longer needed."""
