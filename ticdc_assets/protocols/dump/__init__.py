"""Data files of a Dumpling export."""
