"""The file of each public name of training."""

from sweephand.ext.follow.critical_batch_size import BatchSizeBranch as BatchSizeBranch
from sweephand.ext.follow.critical_batch_size import BatchSizeBranches as BatchSizeBranches
from sweephand.ext.follow.critical_batch_size import CriticalBatchSize as CriticalBatchSize
from sweephand.ext.follow.loss_ledger import LossLedger as LossLedger
from sweephand.ext.follow.noise_scale import GradientNoiseScale as GradientNoiseScale
from sweephand.ext.follow.receipts import ReceiptAudit as ReceiptAudit
from sweephand.ext.follow.receipts import ReceiptMismatch as ReceiptMismatch
from sweephand.ext.follow.receipts import Receipts as Receipts
from sweephand.ext.follow.seesaw import Seesaw as Seesaw
from sweephand.ext.follow.seesaw import seesaw as seesaw
from sweephand.ext.follow.spike import Spike as Spike
from sweephand.ext.follow.spike import SpikeError as SpikeError
from sweephand.ext.follow.spike import SpikeReport as SpikeReport
from sweephand.ext.follow.spike_policy import SpikePolicy as SpikePolicy
from sweephand.ext.integrations.trackers import MLflowProgressWriter as MLflowProgressWriter
from sweephand.ext.integrations.trackers import WandbProgressWriter as WandbProgressWriter

from .learners.schedules import learning_parameter_schedule as learning_parameter_schedule
from .learners.schedules import (
    learning_parameter_schedule_per_sample as learning_parameter_schedule_per_sample,
)
from .learners.schedules import (
    momentum_as_time_constant_schedule as momentum_as_time_constant_schedule,
)
from .learners.schedules import momentum_schedule as momentum_schedule
from .learners.schedules import momentum_schedule_per_sample as momentum_schedule_per_sample
from .loss_scale.judgement import StepResult as StepResult
from .loss_scale.step_guard import LossScaleOptimizer as LossScaleOptimizer
from .records import PeriodicWriter as PeriodicWriter
from .records import ProgressWriter as ProgressWriter
from .records import Record as Record
from .records import Step as Step
from .session.minibatch_scaling import MinibatchScaling as MinibatchScaling
from .session.saving import CheckpointConfig as CheckpointConfig
from .session.session import TrainingSession as TrainingSession
from .session.session import training_session as training_session
from .session.training_run import PREEMPTED_EXIT_CODE as PREEMPTED_EXIT_CODE
from .session.validation import CrossValidationConfig as CrossValidationConfig
from .session.validation import LearningRateControl as LearningRateControl
from .session.validation import TestConfig as TestConfig
from .trainer.trainer import Trainer as Trainer
from .writers import CSVProgressWriter as CSVProgressWriter
from .writers import JSONLProgressWriter as JSONLProgressWriter
from .writers import ProgressBar as ProgressBar
from .writers import ProgressPrinter as ProgressPrinter
from .writers import TensorBoardProgressWriter as TensorBoardProgressWriter
