"""Changelogs of a run: workers' files (`parts`), repeats (`dedup`), late rows (`late_rows`), the commit (`publish`)."""
