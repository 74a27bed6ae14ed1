"""Topics of a Kafka cluster, read by offsets: it joins no consumer group and commits no offset to Kafka."""
