"""The first pass over messages: watermarks, statements and schemas."""
