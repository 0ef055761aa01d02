"""Values that change with the samples seen: minibatch sizes, learning rates, momenta."""
