"""What examines a source, a config or the checks."""
