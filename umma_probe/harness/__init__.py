"""Probes: contract, inputs, comparison, diagnosis."""
