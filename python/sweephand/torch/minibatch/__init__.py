"""Minibatches as tensors, and what attention needs to know of them."""
