"""Launch cases: any kernel, from a YAML or JSON file that says how to launch it and what must come out."""
