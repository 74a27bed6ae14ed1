"""The columns of tables at every TSO: MySQL types, DDL text, and the history of statements. Pure."""
