"""Jobs of operators: maintenance and rebuild."""
