"""Files of this machine and of stores, read by ranges, and the indexes kept beside them."""
