"""Sources and trainers on many processes of ``torch.distributed``."""

from importlib import import_module

from sweephand.torch.distributed.control import Control, RankDesk, guard
from sweephand.torch.distributed.coordinate import coordinate
from sweephand.train.trainer.workers import WorkerError

__all__ = ["Control", "ElasticSteps", "RankDesk", "WorkerError", "coordinate", "guard"]


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__


def __getattr__(name: str) -> object:
    """Return the public name that an extension defines."""
    if name == "ElasticSteps":
        return getattr(import_module("sweephand.ext.integrations.elastic"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
