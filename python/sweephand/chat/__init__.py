"""Conversations as tokens and loss masks: maps for fine-tuning."""

from sweephand.chat.encode import encode
from sweephand.chat.pairs import encode_pairs

__all__ = ["encode", "encode_pairs"]


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
