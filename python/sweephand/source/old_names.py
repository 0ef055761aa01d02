"""Names of CNTK that do not exist here, and their replacements."""

from __future__ import annotations

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
