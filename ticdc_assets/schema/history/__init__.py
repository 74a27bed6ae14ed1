"""Every version of every source table, folded from statements and schemas. A SchemaError stops a table."""
