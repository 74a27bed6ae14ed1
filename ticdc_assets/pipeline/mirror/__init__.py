"""Bringing mirrors up to their changelogs."""
