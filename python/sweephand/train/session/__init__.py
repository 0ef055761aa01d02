"""Minibatches in a row, and what is due between them."""
