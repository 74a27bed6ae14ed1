"""The commands of `ticdc-assets`, one module each: from the user's arguments to an exit code."""
