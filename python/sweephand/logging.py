"""Writers of progress where CNTK has them: ``C.logging``."""

from sweephand.base.other_names import public_face
from sweephand.train.records import ProgressWriter
from sweephand.train.writers import ProgressPrinter, TensorBoardProgressWriter

__all__ = [
    "ProgressPrinter",
    "ProgressWriter",
    "TensorBoardProgressWriter",
]

__dir__, __getattr__ = public_face(__name__, __all__)
