"""Why a run failed: hypotheses that say what the dump would be, compared with what it is."""
