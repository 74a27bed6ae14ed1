"""Avro's binary encoding: one value at a time, and many messages at once."""
