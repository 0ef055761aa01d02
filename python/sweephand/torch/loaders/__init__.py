"""Sources inside torch's own loaders."""
