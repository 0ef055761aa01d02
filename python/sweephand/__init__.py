"""Exact, resumable, shuffled minibatches at memory speed."""

from importlib import import_module
from importlib.metadata import version
from types import ModuleType

from sweephand import numpy
from sweephand.deserializers import (
    ArrayDeserializer,
    Deserializer,
    NpyDeserializer,
    UserDeserializer,
)
from sweephand.errors import DataError, LossScaleError, StaleError, StateError
from sweephand.layouts import Frames, Layout, Padded, Ragged
from sweephand.limits import FULL_DATA_SWEEP, INFINITELY_REPEAT
from sweephand.minibatch import Minibatch, MinibatchData
from sweephand.source import MinibatchSource, MinibatchSourceFromData
from sweephand.streams import StreamDef, StreamDefs, StreamInfo, Streams
from sweephand.train.learning_rate_control import LearningRateControl
from sweephand.train.loss_scale import LossScaleOptimizer
from sweephand.train.minibatch_scaling import MinibatchScaling
from sweephand.train.preemption import PREEMPTED_EXIT_CODE
from sweephand.train.printer import ProgressBar, ProgressPrinter
from sweephand.train.progress import PeriodicWriter, ProgressWriter, Record, Step
from sweephand.train.progress_files import (
    CSVProgressWriter,
    JSONLProgressWriter,
    TensorBoardProgressWriter,
)
from sweephand.train.schedules import (
    learning_parameter_schedule,
    learning_parameter_schedule_per_sample,
    minibatch_size_schedule,
    momentum_as_time_constant_schedule,
    momentum_schedule,
    momentum_schedule_per_sample,
)
from sweephand.train.session import TrainingSession
from sweephand.train.session_configs import (
    CheckpointConfig,
    CrossValidationConfig,
    TestConfig,
)
from sweephand.train.step_result import StepResult
from sweephand.train.trainer import Trainer
from sweephand.window import DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS

__version__ = version("sweephand")

training_session = TrainingSession  # as CNTK spells it

__all__ = [
    "DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS",
    "FULL_DATA_SWEEP",
    "INFINITELY_REPEAT",
    "PREEMPTED_EXIT_CODE",
    "ArrayDeserializer",
    "CSVProgressWriter",
    "CheckpointConfig",
    "CrossValidationConfig",
    "DataError",
    "Deserializer",
    "Frames",
    "JSONLProgressWriter",
    "Layout",
    "LearningRateControl",
    "LossScaleError",
    "LossScaleOptimizer",
    "Minibatch",
    "MinibatchData",
    "MinibatchScaling",
    "MinibatchSource",
    "MinibatchSourceFromData",
    "NpyDeserializer",
    "Padded",
    "PeriodicWriter",
    "ProgressBar",
    "ProgressPrinter",
    "ProgressWriter",
    "Ragged",
    "Record",
    "StaleError",
    "StateError",
    "Step",
    "StepResult",
    "StreamDef",
    "StreamDefs",
    "StreamInfo",
    "Streams",
    "TensorBoardProgressWriter",
    "TestConfig",
    "Trainer",
    "TrainingSession",
    "UserDeserializer",
    "__version__",
    "learning_parameter_schedule",
    "learning_parameter_schedule_per_sample",
    "minibatch_size_schedule",
    "momentum_as_time_constant_schedule",
    "momentum_schedule",
    "momentum_schedule_per_sample",
    "numpy",
    "training_session",
]


def __getattr__(name: str) -> ModuleType:
    """Import ``sweephand.torch`` at its first use: the package itself needs no torch."""
    if name != "torch":
        raise AttributeError(f"module 'sweephand' has no attribute {name!r}")
    return import_module("sweephand.torch")
