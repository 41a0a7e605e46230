"""Recorded findings: what was observed, what was concluded, what the observation cannot show, and what re-checks it."""
