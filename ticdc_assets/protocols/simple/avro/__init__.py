"""The Avro encoding of the Simple protocol."""
