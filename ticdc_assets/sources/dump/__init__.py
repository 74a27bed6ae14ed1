"""A Dumpling export in a folder or bucket."""
