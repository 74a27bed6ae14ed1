"""`rebuild`: a mirror from its changelog, or a changelog from the source."""
