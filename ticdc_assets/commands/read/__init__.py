"""What reads a lake and changes nothing."""
