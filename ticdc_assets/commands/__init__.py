"""The commands of `ticdc-assets`, one module each: what a user asked for in, an exit code out."""
