"""Facts as cited rows: documents, number formats, MMA kinds and shapes, descriptor fields, limits."""
