"""A cache of what stores sent, on the disk of a node, for all its processes."""
