"""Exact, resumable, shuffled minibatches at memory speed."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING

from sweephand.deserializers import (
    ArrayDeserializer,
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
from sweephand.window import DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS

if TYPE_CHECKING:
    from sweephand.deserializers.arrow import ArrowDeserializer
    from sweephand.deserializers.parquet import ParquetDeserializer
else:

    def __getattr__(name: str) -> object:
        """Import those names only when they are used that need pyarrow."""
        module = {"ArrowDeserializer": "arrow", "ParquetDeserializer": "parquet"}.get(name)
        if module is None:
            raise AttributeError(f"module 'sweephand' has no attribute {name!r}")
        try:
            return getattr(import_module(f"sweephand.deserializers.{module}"), name)
        except ModuleNotFoundError as error:
            raise ImportError(
                f"{name} needs {error.name}: pip install 'sweephand[parquet]'"
            ) from error


__version__ = version("sweephand")

__all__ = [
    "DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS",
    "FULL_DATA_SWEEP",
    "INFINITELY_REPEAT",
    "ArrayDeserializer",
    "ArrowDeserializer",
    "DataError",
    "Deserializer",
    "Frames",
    "JSONLDeserializer",
    "Layout",
    "LossScaleError",
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
    "StreamDef",
    "StreamDefs",
    "StreamInfo",
    "Streams",
    "UserDeserializer",
    "__version__",
]
