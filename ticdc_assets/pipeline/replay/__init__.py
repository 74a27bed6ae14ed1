"""`replay`: quarantined records, decoded again and added to changelogs and mirrors."""
