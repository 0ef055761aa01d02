"""Prepared TensorFlow Datasets without TensorFlow: folders, splits and exact read order."""

from sweephand.ext.tfds.builder import Builder, builder_from_directory, load
from sweephand.ext.tfds.builder_info import BuilderInfo, SplitInfo, Splits, builder_info
from sweephand.ext.tfds.dataset import Dataset
from sweephand.ext.tfds.file_instructions import FileInstruction
from sweephand.ext.tfds.read_config import InputContext, ReadConfig
from sweephand.ext.tfds.splits import ReadInstruction, Split, even_splits

__all__ = [
    "Builder",
    "BuilderInfo",
    "Dataset",
    "FileInstruction",
    "InputContext",
    "ReadConfig",
    "ReadInstruction",
    "Split",
    "SplitInfo",
    "Splits",
    "builder_from_directory",
    "builder_info",
    "even_splits",
    "load",
]


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
