"""What happens later: operations in flight and the policies that let them take effect, groups of transfers, waits."""
