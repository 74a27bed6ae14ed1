"""Rows of the upstream TiDB at a TSO."""
