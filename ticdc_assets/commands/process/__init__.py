"""Commands that bring changes into the lake: run, follow, load, capture."""
