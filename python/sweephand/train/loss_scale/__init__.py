"""A loss scale around an optimizer, so that small gradients survive in 16 bits."""
