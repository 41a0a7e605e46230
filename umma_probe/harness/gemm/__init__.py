"""Probes that multiply: what their kernel is told to do, what must come of it, and what came of it."""
