"""The commands as they are written on the command line: their options, and what each calls."""
