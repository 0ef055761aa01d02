"""Writers of progress where CNTK has them: ``C.logging``."""

from typing import NoReturn

from sweephand.train.records import ProgressWriter
from sweephand.train.writers import ProgressPrinter, TensorBoardProgressWriter

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
