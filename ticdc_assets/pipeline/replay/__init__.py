"""Quarantined records that are decoded again."""
