"""Values in registers: PTX types as NumPy arrays, rounding and narrowing, comparison, the arithmetic of atomics."""
