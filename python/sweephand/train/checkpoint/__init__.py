"""What a run needs to go on, as folders on disk."""
