"""Maps that make arrays of stored pictures, sounds and videos."""

from sweephand.ext.vision.decode.pictures import image
from sweephand.ext.vision.decode.sounds import audio
from sweephand.ext.vision.decode.videos import video

__all__ = ["audio", "image", "video"]


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
