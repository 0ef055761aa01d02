"""Mixtures: several corpora on one timeline, by weights."""
