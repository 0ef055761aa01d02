"""Exact, resumable, shuffled minibatches at memory speed."""

from importlib import import_module
from typing import TYPE_CHECKING

from sweephand import mxnet, numpy, tfds, tfrecord
from sweephand.corpus.streams import StreamDef, StreamDefs, StreamInfo, Streams
from sweephand.deserializers import (
    ArrayDeserializer,
    ArrowDeserializer,
    CTFDeserializer,
    Deserializer,
    JSONLDeserializer,
    MapDeserializer,
    MegatronDeserializer,
    NpyDeserializer,
    ParquetDeserializer,
    RawTokensDeserializer,
    TFRecordDeserializer,
    UserDeserializer,
)
from sweephand.deserializers.ctf_text import sequence_to_cntk_text_format
from sweephand.deserializers.split import split
from sweephand.errors import DataError, LossScaleError, StaleError, StateError, SweephandHint
from sweephand.layouts import (
    Bucketed,
    Frames,
    Layout,
    Packed,
    Padded,
    Ragged,
    TruncatedBPTT,
)
from sweephand.minibatch.minibatch import Minibatch
from sweephand.minibatch.minibatch_data import MinibatchData
from sweephand.open_path import open
from sweephand.source.from_data import MinibatchSourceFromData
from sweephand.source.limits import FULL_DATA_SWEEP, INFINITELY_REPEAT
from sweephand.source.old_names import ELSEWHERE
from sweephand.source.schedules.minibatch_sizes import minibatch_size_schedule
from sweephand.source.source import MinibatchSource
from sweephand.source.window import DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS
from sweephand.train.loss_scale.loss_scale_optimizer import LossScaleOptimizer
from sweephand.train.loss_scale.step_result import StepResult
from sweephand.train.progress.file_writers import CSVProgressWriter, JSONLProgressWriter
from sweephand.train.progress.periodic_writer import PeriodicWriter
from sweephand.train.progress.printer import ProgressPrinter
from sweephand.train.progress.progress_bar import ProgressBar
from sweephand.train.progress.record import ProgressWriter, Record, Step
from sweephand.train.progress.tensorboard_writer import TensorBoardProgressWriter
from sweephand.train.progress.tracker_writers import MLflowProgressWriter, WandbProgressWriter
from sweephand.train.schedules.learning_rates import (
    UnitType,
    learning_parameter_schedule,
    learning_parameter_schedule_per_sample,
    learning_rate_schedule,
    training_parameter_schedule,
)
from sweephand.train.schedules.momenta import (
    momentum_as_time_constant_schedule,
    momentum_schedule,
    momentum_schedule_per_sample,
)
from sweephand.train.session.checkpoint_config import CheckpointConfig
from sweephand.train.session.evaluation_configs import CrossValidationConfig, TestConfig
from sweephand.train.session.learning_rate_control import LearningRateControl
from sweephand.train.session.minibatch_scaling import MinibatchScaling
from sweephand.train.session.preemption import PREEMPTED_EXIT_CODE
from sweephand.train.session.session import TrainingSession
from sweephand.train.trainer.trainer import Trainer

if TYPE_CHECKING:
    from sweephand import torch as torch

    __version__: str

training_session = TrainingSession  # as CNTK spells it

__all__ = [
    "DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS",
    "FULL_DATA_SWEEP",
    "INFINITELY_REPEAT",
    "PREEMPTED_EXIT_CODE",
    "ArrayDeserializer",
    "ArrowDeserializer",
    "Bucketed",
    "CSVProgressWriter",
    "CTFDeserializer",
    "CheckpointConfig",
    "CrossValidationConfig",
    "DataError",
    "Deserializer",
    "Frames",
    "JSONLDeserializer",
    "JSONLProgressWriter",
    "Layout",
    "LearningRateControl",
    "LossScaleError",
    "LossScaleOptimizer",
    "MLflowProgressWriter",
    "MapDeserializer",
    "MegatronDeserializer",
    "Minibatch",
    "MinibatchData",
    "MinibatchScaling",
    "MinibatchSource",
    "MinibatchSourceFromData",
    "NpyDeserializer",
    "Packed",
    "Padded",
    "ParquetDeserializer",
    "PeriodicWriter",
    "ProgressBar",
    "ProgressPrinter",
    "ProgressWriter",
    "Ragged",
    "RawTokensDeserializer",
    "Record",
    "StaleError",
    "StateError",
    "Step",
    "StepResult",
    "StreamDef",
    "StreamDefs",
    "StreamInfo",
    "Streams",
    "SweephandHint",
    "TFRecordDeserializer",
    "TensorBoardProgressWriter",
    "TestConfig",
    "Trainer",
    "TrainingSession",
    "TruncatedBPTT",
    "UnitType",
    "UserDeserializer",
    "WandbProgressWriter",
    "__version__",
    "learning_parameter_schedule",
    "learning_parameter_schedule_per_sample",
    "learning_rate_schedule",
    "minibatch_size_schedule",
    "momentum_as_time_constant_schedule",
    "momentum_schedule",
    "momentum_schedule_per_sample",
    "mxnet",
    "numpy",
    "open",
    "sequence_to_cntk_text_format",
    "split",
    "tfds",
    "tfrecord",
    "training_parameter_schedule",
    "training_session",
]


def __dir__() -> list[str]:
    """Return what is public; the rooms of the package are not."""
    return __all__


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Return what costs time to find, or say where a name of CNTK's is."""
        if name == "__version__":
            return import_module("importlib.metadata").version("sweephand")
        if name != "torch":
            hint = f"; {ELSEWHERE[name]}" if name in ELSEWHERE else ""
            raise AttributeError(f"module 'sweephand' has no attribute {name!r}{hint}")
        try:
            return import_module("sweephand.torch")
        except ModuleNotFoundError as error:
            raise ImportError(
                f"sweephand.torch needs {error.name}: pip install 'sweephand[torch]'"
            ) from error
