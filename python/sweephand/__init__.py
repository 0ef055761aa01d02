"""Exact, resumable, shuffled minibatches at memory speed."""

from importlib.metadata import version

from sweephand.errors import DataError, LossScaleError, StaleError, StateError

__version__ = version("sweephand")

__all__ = [
    "DataError",
    "LossScaleError",
    "StaleError",
    "StateError",
    "__version__",
]
