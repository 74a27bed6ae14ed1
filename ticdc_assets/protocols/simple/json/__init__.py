"""The JSON encoding of the Simple protocol, read in compiled passes."""
