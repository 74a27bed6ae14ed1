"""Changelogs and mirrors that are built again."""
