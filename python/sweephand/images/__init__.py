"""Steps that change pictures, under the names that torchvision gave them, and a map of them."""

from sweephand.images.crops import CenterCrop, RandomCrop, RandomResizedCrop, Resize
from sweephand.images.picture_map import transform
from sweephand.images.steps import (
    Compose,
    Normalize,
    RandomHorizontalFlip,
    RandomVerticalFlip,
    ToDtype,
    Transform,
)

__all__ = [
    "CenterCrop",
    "Compose",
    "Normalize",
    "RandomCrop",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "RandomVerticalFlip",
    "Resize",
    "ToDtype",
    "Transform",
    "transform",
]


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
