"""Steps that change pictures, under the names of torchvision, and pictures as patches."""

from sweephand.ext.vision.images.patch_map import (
    NativeResolution,
    PatchRule,
    Tiles,
    patches,
    patchify,
)
from sweephand.ext.vision.images.picture_map import transform
from sweephand.ext.vision.images.transforms import (
    CenterCrop,
    Compose,
    Normalize,
    RandomCrop,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomVerticalFlip,
    Resize,
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
