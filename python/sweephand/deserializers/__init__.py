"""Deserializers, a file per format: what turns arrays and files into chunks of sequences."""
