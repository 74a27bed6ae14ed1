"""Publishing changes in changelogs."""
