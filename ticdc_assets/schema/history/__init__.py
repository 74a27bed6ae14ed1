"""Every version of every source table, folded from the statements and schemas of a stream. A SchemaError stops a table."""
