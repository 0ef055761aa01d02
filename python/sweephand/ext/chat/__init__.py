"""Conversations as tokens and loss masks: maps for fine-tuning."""

from sweephand.ext.chat.encode import encode, encode_pairs, show

__all__ = ["encode", "encode_pairs", "show"]


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
