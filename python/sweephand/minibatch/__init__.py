"""Minibatches, their streams, labels and boundaries."""
