"""The FMHA probe: problem, inputs, float64 reference, limits derived from the formats, comparison, stages, diagnosis."""
