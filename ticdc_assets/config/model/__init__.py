"""The validated config, as all other code has it."""
