"""Forgetting: when a run has seen sequences, and from which checkpoint it goes on without."""
