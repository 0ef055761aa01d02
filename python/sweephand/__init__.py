"""Exact, resumable, shuffled minibatches at memory speed."""

from importlib.metadata import version

from sweephand.deserializers import (
    ArrayDeserializer,
    Deserializer,
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
from sweephand.window import DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS

__version__ = version("sweephand")

__all__ = [
    "DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS",
    "FULL_DATA_SWEEP",
    "INFINITELY_REPEAT",
    "ArrayDeserializer",
    "DataError",
    "Deserializer",
    "Frames",
    "Layout",
    "LossScaleError",
    "MegatronDeserializer",
    "Minibatch",
    "MinibatchData",
    "MinibatchSource",
    "MinibatchSourceFromData",
    "NpyDeserializer",
    "Padded",
    "Ragged",
    "RawTokensDeserializer",
    "StaleError",
    "StateError",
    "StreamDef",
    "StreamDefs",
    "StreamInfo",
    "Streams",
    "UserDeserializer",
    "__version__",
]
