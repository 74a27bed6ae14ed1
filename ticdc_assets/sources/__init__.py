"""Where messages come from: buckets, Kafka, captured files."""
