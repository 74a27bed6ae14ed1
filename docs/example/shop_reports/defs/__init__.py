"""The assets, checks and schedules of the project."""
