"""The rules for rows, whatever they come from: files, messages or dumps."""
