"""Mirrors of a run: what is pending, its `segments`, the `merge` of each by workers or by Spark, the record."""
