"""Reports from records."""
