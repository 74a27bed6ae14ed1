"""Canal-JSON, in messages and in files."""
