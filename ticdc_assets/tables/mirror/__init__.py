"""The mirror tables."""
