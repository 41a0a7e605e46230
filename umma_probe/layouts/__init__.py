"""Pure index maps from the documents: element to place, and back."""
