"""The number and size of requests to stores."""

MOST_REQUESTS = 16
"""Requests to stores that are under way at a time."""

MOST_SMALL_REQUESTS = 48
"""The same if all of them together ask for at most this number of MiB."""


def num_requests(chunk_bytes: int) -> int:
    """Return the number of concurrent requests for a number of bytes each.

    Two chunks of each of 48 lanes are due at once when a run begins: requests beyond the limit
    wait for the latency of those before them.
    """
    most = (MOST_SMALL_REQUESTS << 20) // max(1, chunk_bytes)
    return min(MOST_SMALL_REQUESTS, max(MOST_REQUESTS, most))
