"""Learners: they change the parameters of a model by its gradients."""
