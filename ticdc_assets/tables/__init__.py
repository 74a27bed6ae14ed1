"""The Iceberg tables: changelogs, mirrors and the control tables, and how each is committed exactly once."""
