"""Maintenance, rebuilds and replays."""
