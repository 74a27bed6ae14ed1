"""The Arrow form of changes: layout, identity, order, repeats, intervals. Pure."""
