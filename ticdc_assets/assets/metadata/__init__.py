"""What a materialization shows: figures, columns, lineage, statements, charts."""
