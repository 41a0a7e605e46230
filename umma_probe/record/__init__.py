"""Versioned report records: schema, read, write, migrate."""
