"""The bodies of messages: length-prefixed frames, compression, JSON objects."""
