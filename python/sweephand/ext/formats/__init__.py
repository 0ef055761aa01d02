"""Rarer formats."""
