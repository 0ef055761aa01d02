"""Pages that show what a model sees: minibatches, their timeline, and who gets which part."""
