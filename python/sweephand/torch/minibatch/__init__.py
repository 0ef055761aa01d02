"""Minibatches as tensors, and their attention masks."""
