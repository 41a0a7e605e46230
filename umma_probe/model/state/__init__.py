"""What a launch holds: registers, global, shared and local memory, Tensor Memory, mbarriers."""
