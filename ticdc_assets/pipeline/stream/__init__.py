"""Messages as a source of changes."""
