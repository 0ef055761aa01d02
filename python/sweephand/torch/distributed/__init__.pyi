"""Where each public name is defined."""

from sweephand.ext.integrations.elastic import ElasticSteps as ElasticSteps
from sweephand.train.trainer.workers import WorkerError as WorkerError

from .control import Control as Control
from .control import RankDesk as RankDesk
from .control import guard as guard
from .coordinate import coordinate as coordinate

__all__ = ["Control", "ElasticSteps", "RankDesk", "WorkerError", "coordinate", "guard"]
