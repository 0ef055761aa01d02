"""Torch models and optimizers, as a trainer works with them."""
