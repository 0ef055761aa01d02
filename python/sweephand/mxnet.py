"""Buckets of sentences as MXNet's users know them; MXNet is not needed.

New code takes ``MinibatchSource(..., layout=Bucketed(...))``, which serves every sentence.
"""

from sweephand.ext.integrations.sentences import BucketSentenceIter, DataBatch

__all__ = ["BucketSentenceIter", "DataBatch"]


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
