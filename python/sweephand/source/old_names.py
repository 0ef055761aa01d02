"""Options and names of CNTK that we do not have, and what to use instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from sweephand.checks import check_flag


class OldOptions(TypedDict, total=False):
    """Options of CNTK's minibatch source beside those that go by the same name."""

    multithreaded_deserializer: bool | None
    trace_level: int


def threads_of_old_name(num_threads: int | None, old: Mapping[str, object]) -> int | None:
    """Return `num_threads`, by whichever of its names it was given.

    Raises
    ------
    TypeError
        If an option has no counterpart, saying what to do instead, or is none at all.
    ValueError
        If threads are given under both names.
    """
    for name in old:
        if name == "trace_level":
            raise TypeError(
                "trace_level has no counterpart: leave it out, and set the level of "
                "logging.getLogger('sweephand')"
            )
        if name != "multithreaded_deserializer":
            raise TypeError(f"MinibatchSource() got an unexpected keyword argument {name!r}")
    multithreaded = old.get("multithreaded_deserializer")
    if multithreaded is None:
        return num_threads
    if num_threads is not None:
        raise ValueError("give num_threads alone; multithreaded_deserializer is its old name")
    return None if check_flag("multithreaded_deserializer", multithreaded) else 1


_LEARNERS = (
    "learners of arrays are in sweephand.numpy; sweephand.torch.Learner is around any torch "
    "optimizer"
)
_WORKERS = (
    "workers ask for their share by num_data_partitions and partition_index; with torch the "
    "model is in a DistributedDataParallel"
)

# What a user of CNTK may look for in vain, and what to write instead.
ELSEWHERE = {
    "MinibatchSourceConfig": "give its options to MinibatchSource itself",
    "UserMinibatchSource": (
        "write a UserDeserializer, which is shuffled, shared and resumed for you; a Trainer "
        "also takes minibatches that are dicts of your own"
    ),
    "StreamInformation": "it is StreamInfo(name, dtype, shape, is_sparse)",
    "StreamConfiguration": "it is StreamDef",
    "text_format_minibatch_source": "it is MinibatchSource(CTFDeserializer(...))",
    "ImageDeserializer": "a MapDeserializer serves the images that your code decodes",
    "Base64ImageDeserializer": "a MapDeserializer serves the images that your code decodes",
    "TrainingSummaryProgressCallback": "it is a ProgressWriter whose write(record) you define",
    "UserLearner": "it is sweephand.torch.Learner around a torch optimizer of your own",
    **dict.fromkeys(
        [
            "sgd",
            "momentum_sgd",
            "nesterov",
            "adagrad",
            "fsadagrad",
            "adam",
            "rmsprop",
            "adadelta",
            "universal",
        ],
        _LEARNERS,
    ),
    **dict.fromkeys(
        [
            "data_parallel_distributed_learner",
            "block_momentum_distributed_learner",
            "Communicator",
        ],
        _WORKERS,
    ),
}
