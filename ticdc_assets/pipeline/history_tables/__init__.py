"""The history tables of a changefeed: which are behind, and a run that brings them up."""
