"""The Avro protocol, with Confluent framing."""
