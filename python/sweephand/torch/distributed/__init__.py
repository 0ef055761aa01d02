"""Sources and trainers on many processes of ``torch.distributed``."""

from sweephand.ext.integrations.elastic import ElasticSteps
from sweephand.torch.distributed.control import Control
from sweephand.torch.distributed.coordinate import coordinate
from sweephand.torch.distributed.guard import guard
from sweephand.train.trainer.workers import WorkerError

__all__ = ["Control", "ElasticSteps", "WorkerError", "coordinate", "guard"]


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
