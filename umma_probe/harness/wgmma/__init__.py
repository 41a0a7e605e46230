"""What the probes of ``wgmma`` have in common."""
