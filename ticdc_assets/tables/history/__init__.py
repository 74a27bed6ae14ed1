"""History tables: every version of every row of a source table, kept beside its mirror."""
