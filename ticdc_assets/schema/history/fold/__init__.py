"""The fold of DDL events into the history of each source table."""
