"""Sources of messages and files: buckets, Kafka, captured files."""
