"""Commands that test a source, a config or the checks."""
