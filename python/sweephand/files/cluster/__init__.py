"""The caches of several nodes as one, whose members know the same future."""
