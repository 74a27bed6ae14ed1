"""Asset checks: what each evaluates and what it reports."""
