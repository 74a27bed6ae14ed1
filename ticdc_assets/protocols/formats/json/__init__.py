"""JSON, Avro and frames, whatever protocol uses them."""
