"""Buckets of the storage sink: folders, files, cursor."""
