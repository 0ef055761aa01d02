"""Receipts: the inputs of every step, in a chain of hashes that anybody can check."""
