"""Exact, resumable, shuffled minibatches at memory speed."""

from importlib import import_module
from importlib.metadata import version
from types import ModuleType

from sweephand import numpy
from sweephand.deserializers import (
    ArrayDeserializer,
    CTFDeserializer,
    Deserializer,
    NpyDeserializer,
    UserDeserializer,
)
from sweephand.errors import DataError, LossScaleError, StaleError, StateError
from sweephand.layouts import (
    Bucketed,
    Frames,
    Layout,
    Packed,
    Padded,
    Ragged,
    TruncatedBPTT,
)
from sweephand.limits import FULL_DATA_SWEEP, INFINITELY_REPEAT
from sweephand.minibatch import Minibatch, MinibatchData
from sweephand.source import MinibatchSource, MinibatchSourceFromData
from sweephand.streams import StreamDef, StreamDefs, StreamInfo, Streams
from sweephand.train.loss_scale import LossScaleOptimizer
from sweephand.train.schedules import (
    learning_parameter_schedule,
    learning_parameter_schedule_per_sample,
    minibatch_size_schedule,
    momentum_as_time_constant_schedule,
    momentum_schedule,
    momentum_schedule_per_sample,
)
from sweephand.train.step_result import StepResult
from sweephand.window import DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS

__version__ = version("sweephand")

__all__ = [
    "DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS",
    "FULL_DATA_SWEEP",
    "INFINITELY_REPEAT",
    "ArrayDeserializer",
    "Bucketed",
    "CTFDeserializer",
    "DataError",
    "Deserializer",
    "Frames",
    "Layout",
    "LossScaleError",
    "LossScaleOptimizer",
    "Minibatch",
    "MinibatchData",
    "MinibatchSource",
    "MinibatchSourceFromData",
    "NpyDeserializer",
    "Packed",
    "Padded",
    "Ragged",
    "StaleError",
    "StateError",
    "StepResult",
    "StreamDef",
    "StreamDefs",
    "StreamInfo",
    "Streams",
    "TruncatedBPTT",
    "UserDeserializer",
    "__version__",
    "learning_parameter_schedule",
    "learning_parameter_schedule_per_sample",
    "minibatch_size_schedule",
    "momentum_as_time_constant_schedule",
    "momentum_schedule",
    "momentum_schedule_per_sample",
    "numpy",
]


def __getattr__(name: str) -> ModuleType:
    """Import ``sweephand.torch`` at its first use: the package itself needs no torch."""
    if name != "torch":
        raise AttributeError(f"module 'sweephand' has no attribute {name!r}")
    return import_module("sweephand.torch")
