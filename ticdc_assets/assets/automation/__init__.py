"""Sensors and schedules, and what they read of earlier runs."""
