"""Exact, resumable, shuffled minibatches at memory speed."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING

from sweephand import numpy
from sweephand.deserializers import (
    ArrayDeserializer,
    CTFDeserializer,
    Deserializer,
    JSONLDeserializer,
    MapDeserializer,
    MegatronDeserializer,
    NpyDeserializer,
    RawTokensDeserializer,
    UserDeserializer,
)
from sweephand.errors import DataError, LossScaleError, StaleError, StateError
from sweephand.layouts import Frames, Layout, Padded, Ragged
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

if TYPE_CHECKING:
    from sweephand import torch as torch
    from sweephand.deserializers.arrow import ArrowDeserializer
    from sweephand.deserializers.parquet import ParquetDeserializer

__version__ = version("sweephand")

__all__ = [
    "DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS",
    "FULL_DATA_SWEEP",
    "INFINITELY_REPEAT",
    "ArrayDeserializer",
    "ArrowDeserializer",
    "CTFDeserializer",
    "DataError",
    "Deserializer",
    "Frames",
    "JSONLDeserializer",
    "Layout",
    "LossScaleError",
    "LossScaleOptimizer",
    "MapDeserializer",
    "MegatronDeserializer",
    "Minibatch",
    "MinibatchData",
    "MinibatchSource",
    "MinibatchSourceFromData",
    "NpyDeserializer",
    "Padded",
    "ParquetDeserializer",
    "Ragged",
    "RawTokensDeserializer",
    "StaleError",
    "StateError",
    "StepResult",
    "StreamDef",
    "StreamDefs",
    "StreamInfo",
    "Streams",
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

# Names that need an optional package, which is imported when they are first used.
_OPTIONAL = {
    "torch": ("sweephand.torch", "torch"),
    "ArrowDeserializer": ("sweephand.deserializers.arrow", "parquet"),
    "ParquetDeserializer": ("sweephand.deserializers.parquet", "parquet"),
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Return one of the optional names, or the module of that name."""
        if name not in _OPTIONAL:
            raise AttributeError(f"module 'sweephand' has no attribute {name!r}")
        path, extra = _OPTIONAL[name]
        try:
            module = import_module(path)
        except ModuleNotFoundError as error:
            raise ImportError(
                f"sweephand.{name} needs {error.name}: pip install 'sweephand[{extra}]'"
            ) from error
        return getattr(module, name, module)
