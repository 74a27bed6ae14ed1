"""The offsets that a log of messages has, and those that are consumed."""
