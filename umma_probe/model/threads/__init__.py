"""Who runs when: strands of a warp, reconvergence, the scheduler, barriers, pairs of CTAs, what a hang looks like."""
