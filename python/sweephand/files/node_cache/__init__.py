"""A cache of data from stores, on the disk of a node, for all its processes."""
