"""The tables of a changefeed at a recorded TSO, for readers outside of runs."""
