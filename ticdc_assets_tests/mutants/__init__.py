"""Mutation tests: `make mutants`."""
