"""Pages that show minibatches as a model sees them, their timeline, and all shares."""
