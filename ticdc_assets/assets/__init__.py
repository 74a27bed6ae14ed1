"""Dagster's view of changefeeds: a group each of source, schema cache, changelogs, mirrors, checks, sensor, schedule."""
