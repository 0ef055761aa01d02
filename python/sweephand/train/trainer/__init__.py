"""Trainers: from a minibatch to a step of a model."""
