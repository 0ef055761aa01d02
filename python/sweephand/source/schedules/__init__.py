"""Values that change with the samples seen, and their notations; minibatch sizes."""
