"""Writers of progress where CNTK has them: ``C.logging``."""

from typing import NoReturn

from sweephand.train.progress.file_writers import TensorBoardProgressWriter
from sweephand.train.progress.printer import ProgressPrinter
from sweephand.train.progress.record import ProgressWriter

__all__ = [
    "ProgressPrinter",
    "ProgressWriter",
    "TensorBoardProgressWriter",
]


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(__all__)


def __getattr__(name: str) -> NoReturn:
    """Raise AttributeError, with the replacement of a name of CNTK."""
    from sweephand.base.other_names import no_such_name

    raise no_such_name(__name__, name, __all__)
