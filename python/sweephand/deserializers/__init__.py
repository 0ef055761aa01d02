"""Deserializers, a file per format: arrays and files become chunks of sequences."""
