"""`ticdc-assets run --follow`: runs in one process until it is stopped."""
