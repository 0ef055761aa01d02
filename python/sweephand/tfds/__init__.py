"""Prepared TensorFlow Datasets without TensorFlow: folders, splits and exact read order."""

from sweephand.tfds.builder_info import BuilderInfo, SplitInfo, Splits, builder_info
from sweephand.tfds.file_instructions import FileInstruction
from sweephand.tfds.read_config import InputContext, ReadConfig
from sweephand.tfds.splits import ReadInstruction, Split, even_splits

__all__ = [
    "BuilderInfo",
    "FileInstruction",
    "InputContext",
    "ReadConfig",
    "ReadInstruction",
    "Split",
    "SplitInfo",
    "Splits",
    "builder_info",
    "even_splits",
]
