"""Where each public name of training is defined."""

from .forgetting.forgetting import Forgetting
from .forgetting.plan_forgetting import plan_forgetting
from .forgetting.saved_moment import SavedMoment
from .ledger.loss_ledger import LossLedger
from .loss_scale.loss_scale_optimizer import LossScaleOptimizer
from .loss_scale.step_result import StepResult
from .progress.file_writers import CSVProgressWriter, JSONLProgressWriter
from .progress.periodic_writer import PeriodicWriter
from .progress.printer import ProgressPrinter
from .progress.progress_bar import ProgressBar
from .progress.record import ProgressWriter, Record, Step
from .progress.tensorboard_writer import TensorBoardProgressWriter
from .progress.tracker_writers import MLflowProgressWriter, WandbProgressWriter
from .receipts.receipts import Receipts
from .receipts.report import ReceiptAudit, ReceiptMismatch
from .schedules.cosine import cosine_schedule
from .schedules.learning_rates import (
    UnitType,
    learning_parameter_schedule,
    learning_parameter_schedule_per_sample,
    learning_rate_schedule,
    training_parameter_schedule,
)
from .schedules.momenta import (
    momentum_as_time_constant_schedule,
    momentum_schedule,
    momentum_schedule_per_sample,
)
from .schedules.seesaw import Seesaw, seesaw
from .session.checkpoint_config import CheckpointConfig
from .session.critical_batch_size import BatchSizeBranch, BatchSizeBranches, CriticalBatchSize
from .session.evaluation_configs import CrossValidationConfig, TestConfig
from .session.learning_rate_control import LearningRateControl
from .session.minibatch_scaling import MinibatchScaling
from .session.preemption import PREEMPTED_EXIT_CODE
from .session.session import TrainingSession, training_session
from .spikes.spike import Spike, SpikeError
from .spikes.spike_policy import SpikePolicy
from .spikes.spike_report import SpikeReport
from .trainer.noise_scale import GradientNoiseScale
from .trainer.parameter_digest import parameter_digest
from .trainer.trainer import Trainer

__all__ = [
    "PREEMPTED_EXIT_CODE",
    "BatchSizeBranch",
    "BatchSizeBranches",
    "CSVProgressWriter",
    "CheckpointConfig",
    "CriticalBatchSize",
    "CrossValidationConfig",
    "Forgetting",
    "GradientNoiseScale",
    "JSONLProgressWriter",
    "LearningRateControl",
    "LossLedger",
    "LossScaleOptimizer",
    "MLflowProgressWriter",
    "MinibatchScaling",
    "PeriodicWriter",
    "ProgressBar",
    "ProgressPrinter",
    "ProgressWriter",
    "ReceiptAudit",
    "ReceiptMismatch",
    "Receipts",
    "Record",
    "SavedMoment",
    "Seesaw",
    "Spike",
    "SpikeError",
    "SpikePolicy",
    "SpikeReport",
    "Step",
    "StepResult",
    "TensorBoardProgressWriter",
    "TestConfig",
    "Trainer",
    "TrainingSession",
    "UnitType",
    "WandbProgressWriter",
    "cosine_schedule",
    "learning_parameter_schedule",
    "learning_parameter_schedule_per_sample",
    "learning_rate_schedule",
    "momentum_as_time_constant_schedule",
    "momentum_schedule",
    "momentum_schedule_per_sample",
    "parameter_digest",
    "plan_forgetting",
    "seesaw",
    "training_parameter_schedule",
    "training_session",
]
