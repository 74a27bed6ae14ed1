"""Rows of whole batches as columns, before a schema gives them types."""
