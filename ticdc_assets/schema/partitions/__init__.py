"""Which rows a partition holds."""
