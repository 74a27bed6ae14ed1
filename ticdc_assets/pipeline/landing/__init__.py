"""Kafka topics as rows of the table `messages`."""
