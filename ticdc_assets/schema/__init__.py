"""What columns mean at a TSO: MySQL types, DDL text, and the history they add up to. Pure."""
