"""What changes the lake: runs, follow, load, capture."""
