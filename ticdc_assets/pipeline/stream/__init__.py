"""Messages, captured or landed, as a source of changes: `scan` (the driver), then `decode` (the workers)."""
