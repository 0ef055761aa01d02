"""Exact, resumable, shuffled minibatches at memory speed."""

from importlib import import_module

from sweephand.base.public_names import attach_names

# The public names are those of ``__init__.pyi``. Each is imported when it is asked for, as few
# programs need all rooms.
_find, _, _names = attach_names(__name__, __file__)

# What `dir` lists: rooms, and what most programs need. The rest is asked for by its name.
_SHOWN = """
Deserializer ArrayDeserializer ArrowDeserializer CSVDeserializer CTFDeserializer ImageFolder
JSONLDeserializer MapDeserializer MegatronDeserializer NpyDeserializer ParquetDeserializer
RawTokensDeserializer TFRecordDeserializer TextDeserializer UserDeserializer
WebDatasetDeserializer StreamDef StreamDefs StreamInfo open split
MinibatchSource MinibatchSourceFromData Minibatch MinibatchData Mixture Key NodeCache
FULL_DATA_SWEEP INFINITELY_REPEAT minibatch_size_schedule plan_lengths
Ragged Padded Packed Bucketed TruncatedBPTT Frames
Trainer training_session LossScaleOptimizer DataError StaleError StateError
chat decode events extend images io mxnet numpy ray tfds tfrecord torch torchft train
__version__
"""
__all__ = sorted({*_SHOWN.split()} - {"torch"})  # `import *` shall not bring torch


def __dir__() -> list[str]:
    """Return the names that most programs need, and the public rooms."""
    return sorted([*__all__, "torch"])


def __getattr__(name: str) -> object:
    """Return a public name, or raise with its replacement."""
    if name == "__version__":
        return import_module("importlib.metadata").version("sweephand")
    if name in _names:
        try:
            return _find(name)
        except ModuleNotFoundError as error:
            if name != "torch":
                raise
            raise ImportError(
                f"sweephand.torch needs {error.name}: pip install 'sweephand[torch]'"
            ) from error
    if name[0] == "_":  # also when the package itself imports its core
        raise AttributeError(f"module 'sweephand' has no attribute {name!r}")
    if name in import_module("sweephand.train").__all__:
        raise AttributeError(f"sweephand has no {name!r}; it is sweephand.train.{name}")
    from sweephand.base.other_names import no_such_name

    raise no_such_name(__name__, name, _names)
