"""Maps that make arrays of stored pictures, sounds and videos."""

from sweephand.decode.pictures import image
from sweephand.decode.sounds import audio
from sweephand.decode.videos import video

__all__ = ["audio", "image", "video"]


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
