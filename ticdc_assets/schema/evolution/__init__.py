"""What a statement does to the columns and rows of a table."""
