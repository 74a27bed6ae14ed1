"""An example of a Dagster project that reads mirrors and changelogs."""
