"""One file per verb; loaded on demand."""
