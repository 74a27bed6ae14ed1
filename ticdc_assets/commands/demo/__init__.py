"""The packaged sample in every protocol."""
