"""The commands of `ticdc-assets`, one folder for each group of them: from arguments to an exit code."""
