"""One protocol over the model and the GPU."""
