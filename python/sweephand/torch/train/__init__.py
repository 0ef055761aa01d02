"""Training with PyTorch: models, learners, loss scale."""
