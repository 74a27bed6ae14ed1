"""Reading: the YAML with its lines, the kinds of values, files and secrets, and the faults that are found."""
