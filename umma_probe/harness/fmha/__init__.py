"""The FMHA probe: problem, inputs, float64 reference, limits from the formats, comparison, stages, cause."""
