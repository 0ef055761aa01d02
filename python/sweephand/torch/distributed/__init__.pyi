"""Where each public name is defined."""

from sweephand.ext.integrations.elastic import ElasticSteps as ElasticSteps
from sweephand.train.trainer.workers import WorkerError as WorkerError

from .control import Control as Control
from .coordinate import coordinate as coordinate
from .guard import guard as guard
from .rank_desk import RankDesk as RankDesk

__all__ = ["Control", "ElasticSteps", "RankDesk", "WorkerError", "coordinate", "guard"]
