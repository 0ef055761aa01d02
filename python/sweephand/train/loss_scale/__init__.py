"""A loss scale around an optimizer, by which small gradients survive in 16 bits."""
