"""Messages as typed changes, in workers."""
