"""The tensor core: what an MMA reads and where, through descriptors and the data path, and what it leaves."""
