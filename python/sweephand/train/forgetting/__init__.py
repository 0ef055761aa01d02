"""Forgetting: what a run has seen when, and from which checkpoint it can go on without it."""
