"""Files of this machine and of stores, read by ranges, and the indexes kept beside them."""

MOST_REQUESTS = 16
"""Requests to stores that are under way at a time."""
