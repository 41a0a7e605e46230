"""What a correct kernel does not do, though it may work: hand-overs without fences, reads of what is in flight."""
