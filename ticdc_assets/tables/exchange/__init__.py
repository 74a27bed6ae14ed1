"""Rows that EXCHANGE PARTITION moves."""
