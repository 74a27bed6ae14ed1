"""Whether the tests notice a change of the code: `make mutants`."""
