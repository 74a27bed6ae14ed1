"""MODIFY COLUMN as SQL: the new value of a column for each pair of types, or a refusal."""
