"""A kernel decoded once, for any launch: instructions bound to executors, operands, variables, control flow, calls."""
