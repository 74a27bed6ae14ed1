"""Values after a MODIFY COLUMN, as SQL."""
