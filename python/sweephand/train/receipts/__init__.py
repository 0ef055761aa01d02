"""Receipts: what every step was given, in a chain of hashes that anybody can check."""
