"""Rows of TiDB at a TSO, added to changelogs where the lake has other rows."""
