"""Questions about tables at a TSO: what they were, and what differs between two."""
