"""Loaders that users have today, on the corpora of our own benchmarks."""
