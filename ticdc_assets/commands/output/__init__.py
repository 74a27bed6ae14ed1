"""Tables, lines and times on a terminal."""
