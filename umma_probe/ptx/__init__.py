"""PTX text to frozen nodes and back."""
