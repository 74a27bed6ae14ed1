"""Commands that read a lake and change nothing."""
