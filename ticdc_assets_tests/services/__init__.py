"""Real servers for tests. Each listens on loopback alone, and is started and stopped by the tests that use it."""
