"""Prepared TensorFlow Datasets without TensorFlow: folders, splits and exact read order."""

from sweephand.ext.tfds.builder_info import (
    BuilderInfo,
    FileInstruction,
    SplitInfo,
    Splits,
    builder_info,
)
from sweephand.ext.tfds.dataset import Dataset
from sweephand.ext.tfds.prepared import load
from sweephand.ext.tfds.read_config import ReadConfig
from sweephand.ext.tfds.splits import ReadInstruction, Split, even_splits

__all__ = [
    "BuilderInfo",
    "Dataset",
    "FileInstruction",
    "ReadConfig",
    "ReadInstruction",
    "Split",
    "SplitInfo",
    "Splits",
    "builder_info",
    "even_splits",
    "load",
]


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
