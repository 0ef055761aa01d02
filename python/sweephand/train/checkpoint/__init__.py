"""Checkpoints: all that a run needs to resume, as folders on disk."""
