"""Wire values as values of the lake."""
