"""The mirror tables in Iceberg: their columns, the SQL of merges and statements, the branch that publishes them."""
