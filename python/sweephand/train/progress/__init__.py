"""The records of training progress, and the writers that receive them."""
