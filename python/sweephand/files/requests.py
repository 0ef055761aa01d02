"""How stores are asked."""

MOST_REQUESTS = 16
"""Requests to stores that are under way at a time."""
