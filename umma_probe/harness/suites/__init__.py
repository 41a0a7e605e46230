"""One module for each probe: ``prepare(params, arch, seed) -> Experiment``."""
