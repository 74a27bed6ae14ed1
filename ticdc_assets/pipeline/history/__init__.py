"""Tables at a TSO: their columns, their rows, and what differs between two TSOs."""
