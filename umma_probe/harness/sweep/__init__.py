"""Sweeps: many cases from one config, in worker processes, resumable, with one result."""
