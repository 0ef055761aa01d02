"""Sequences to deliver: how they are read, and which of them are damaged."""
