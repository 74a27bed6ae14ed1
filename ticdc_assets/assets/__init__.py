"""Dagster's view of changefeeds: each a group of source, schema cache, changelogs, mirrors and checks."""
