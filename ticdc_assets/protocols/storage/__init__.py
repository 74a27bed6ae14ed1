"""What the storage sink writes besides data files."""
