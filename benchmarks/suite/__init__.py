"""Benchmarks for asv, one file per room."""
