"""Row changes as Arrow arrays: changelog layout, identity of changes, their order, and repeats. No I/O."""
