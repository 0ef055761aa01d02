"""Maps that make arrays of stored pictures and sounds."""

from sweephand.decode.pictures import image
from sweephand.decode.sounds import audio

__all__ = ["audio", "image"]


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
