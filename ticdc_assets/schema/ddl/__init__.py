"""DDL text as statements."""
