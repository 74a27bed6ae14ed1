"""The Simple protocol, in JSON and in Avro."""
