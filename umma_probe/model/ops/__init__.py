"""One decorated function per instruction, grouped by family."""
