"""Steps that change pictures, under the names of torchvision, and pictures as patches."""

from sweephand.images.crops import CenterCrop, RandomCrop, RandomResizedCrop, Resize
from sweephand.images.grids import NativeResolution, PatchRule, Tiles
from sweephand.images.patch_map import patches, patchify
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
    "NativeResolution",
    "Normalize",
    "PatchRule",
    "RandomCrop",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "RandomVerticalFlip",
    "Resize",
    "Tiles",
    "ToDtype",
    "Transform",
    "patches",
    "patchify",
    "transform",
]


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
