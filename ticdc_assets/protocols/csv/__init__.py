"""CSV files of the storage sink."""
