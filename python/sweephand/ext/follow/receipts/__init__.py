"""Receipts: the inputs of every step, in a chain of hashes that anyone can check."""
