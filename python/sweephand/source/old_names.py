"""Names of CNTK and of others that do not exist here, and their replacements."""

from __future__ import annotations

from collections.abc import Collection

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
    "ImageDeserializer": "it is ImageFolder(map_file), mapped by sweephand.decode.image",
    "Base64ImageDeserializer": "a MapDeserializer serves the images that your code decodes",
    "TrainingSummaryProgressCallback": (
        "it is a sweephand.train.ProgressWriter whose write(record) you define"
    ),
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

_GRAPHS = (
    "models, losses and devices are the framework's: Trainer(model, criterion, learners) takes "
    "a torch.nn.Module"
)
ELSEWHERE |= dict.fromkeys(
    [
        *(
            "input_variable",
            "input",
            "parameter",
            "constant",
            "placeholder",
            "Variable",
            "Axis",
        ),
        *("Function", "layers", "ops", "functions", "combine", "sequence", "initializer"),
        *("losses", "relu", "softmax", "sigmoid", "tanh", "times", "plus", "glorot_uniform"),
        *("cross_entropy_with_softmax", "classification_error", "squared_error", "load_model"),
        *("cntk_py", "debugging", "user_function", "default_options", "element_select"),
    ],
    _GRAPHS,
) | {
    "distributed": f"{_WORKERS}; sweephand.torch.distributed finds both",
    "LatticeDeserializer": "lattices are read by your code, in a UserDeserializer",
}

_SOURCE = "minibatches come from source = MinibatchSource(corpus), by source.sweep(size)"
_OPEN = "sweephand.open(path) opens the corpus at a path or URL, whatever its format is"
_ARRAYS = "arrays are served by MinibatchSource({'x': X, 'y': y})"
_MIXED = "it is Mixture({'a': a, 'b': b}, weights={'a': 3, 'b': 1})"
_PADDED = "it is Padded(), a layout: MinibatchSource(corpus, layout=sh.Padded())"
_SCHEDULES = "it is learning_parameter_schedule, warmup, cosine or linear"

# What users of torch, Hugging Face, Grain and Mosaic may look for.
IN_OTHER_LIBRARIES = {
    **dict.fromkeys(
        ["DataLoader", "Loader", "StatefulDataLoader", "StreamingDataLoader"],
        f"{_SOURCE}; a loader of torch is sweephand.torch.DataLoader",
    ),
    **dict.fromkeys(
        ["Dataset", "StreamingDataset", "MapDataset", "IterDataset", "Subset"],
        f"{_OPEN}; MapDeserializer(dataset) serves a data set of your own",
    ),
    "IterableDataset": "it is sweephand.torch.IterableDataset(source, size)",
    **dict.fromkeys(["TensorDataset", "ArrayDataset", "from_numpy", "from_arrays"], _ARRAYS),
    **dict.fromkeys(["from_dict", "from_tensor_slices"], _ARRAYS),
    **dict.fromkeys(["from_pandas", "from_arrow", "from_polars"], "a table is served as it is, "
                    "by MinibatchSource(table)"),
    **dict.fromkeys(["load", "load_dataset", "load_from_disk", "open_dataset", "read"], _OPEN),
    **dict.fromkeys(["dataset", "data", "Corpus", "corpus"], _OPEN),
    **dict.fromkeys(["Source", "Epoch", "epoch", "sweep", "batch", "Batch", "minibatches"],
                    _SOURCE),
    **dict.fromkeys(["random_split", "train_test_split"],
                    "it is split(corpus, validation=0.1)"),
    **dict.fromkeys(["ConcatDataset", "concatenate_datasets", "concat"],
                    f"files of one corpus are sweephand.open([a, b]); of others {_MIXED}"),
    **dict.fromkeys(["interleave", "interleave_datasets", "mix", "Mix"], _MIXED),
    **dict.fromkeys(["WeightedRandomSampler", "balance"],
                    "it is Mixture.by(corpus, 'label', weights='equal')"),
    **dict.fromkeys(["RandomSampler", "DistributedSampler", "Sampler", "shuffle",
                     "DistributedDataLoader"],
                    "a source shuffles by itself, and workers share minibatches by "
                    "num_data_partitions and partition_index"),
    **dict.fromkeys(["Padding", "Pad", "pad", "PadCollator", "pad_sequence"], _PADDED),
    **dict.fromkeys(["Collator", "collate", "collate_fn", "default_collate", "DataCollator"],
                    "a layout makes the arrays of a minibatch: MinibatchSource(corpus, "
                    "layout=sh.Padded()), Packed(row_length), Bucketed('auto')"),
    **dict.fromkeys(["from_generator", "from_iterable", "GeneratorDataset"],
                    "what has an order is MapDeserializer(list(items)); what is made chunk by "
                    "chunk a UserDeserializer"),
    **dict.fromkeys(["HFDataset", "HuggingFaceDeserializer", "HFDeserializer"],
                    "it is ArrowDeserializer(dataset), or open(folder) of save_to_disk"),
    **dict.fromkeys(["Tokenizer", "tokenizer", "tokenize", "encode"],
                    "texts become tokens in a map, corpus.map(function, size='measured'), and "
                    "conversations in sweephand.chat.encode(tokenizer)"),
    **dict.fromkeys(["seed", "manual_seed", "set_seed", "seed_everything", "set_random_seed"],
                    "the order's seed is MinibatchSource(corpus, randomization_seed=1)"),
    **dict.fromkeys(["cuda", "device", "to_torch", "to_device", "tensor", "pin_memory"],
                    "tensors come by minibatch.torch('cuda')"),
    **dict.fromkeys(["audio", "image", "imread", "read_image"],
                    "it is a map of sweephand.decode: corpus.map(sh.decode.image('image'))"),
    **dict.fromkeys(["EarlyStopping"],
                    "a session ends when the callback of its CrossValidationConfig returns "
                    "False"),
    **dict.fromkeys(["accuracy", "Metric", "metrics", "evaluate", "Evaluator"],
                    "a criterion returns (loss sum, metric sum), and "
                    "trainer.test_minibatch(minibatch) their mean"),
    "Stream": "a stream is declared by StreamDef, and described by StreamInfo",
    **dict.fromkeys(["Packing", "Pack", "pack"],
                    "it is Packed(row_length), a layout"),
    **dict.fromkeys(["Bucketing", "Bucket", "BucketSampler"],
                    "it is Bucketed('auto'), a layout"),
    "BucketSentenceIter": "it is sweephand.mxnet.BucketSentenceIter",
    "BucketingModule": "it is sweephand.torch.BucketingModule",
    **dict.fromkeys(["Compose", "transforms"], "steps for pictures are in sweephand.images"),
    **dict.fromkeys(["Adam", "AdamW", "SGD", "Lion", "RMSprop", "optim"], _LEARNERS),
    **dict.fromkeys(["Learner", "TorchLearner"], _LEARNERS),
    **dict.fromkeys(["GradScaler", "amp"], "it is LossScaleOptimizer(optimizer)"),
    **dict.fromkeys(["lr_scheduler", "Scheduler", "LambdaLR", "LRScheduler", "StepLR"],
                    _SCHEDULES),
    **dict.fromkeys(["Checkpoint", "checkpoint", "save", "ModelCheckpoint"],
                    "sessions save by CheckpointConfig(filename, frequency), a source by "
                    "source.get_checkpoint_state()"),
    **dict.fromkeys(["Callback", "callbacks", "TensorBoard"],
                    "it is a sweephand.train.ProgressWriter whose write(record) you define, or "
                    "one of "
                    "TensorBoardProgressWriter, CSVProgressWriter, ProgressPrinter"),
    **dict.fromkeys(["fit", "Model", "nn"],
                    _GRAPHS),
}  # fmt: skip


# What rooms of CNTK have beside what stands here under their names.
IN_ROOMS = {
    "transforms": "steps for pictures are in sweephand.images",
    "progress_print": "it is sweephand.logging.ProgressPrinter itself",
    "TraceLevel": "it is the level of logging.getLogger('sweephand')",
    "set_trace_level": "it is the level of logging.getLogger('sweephand')",
    "log_number_of_parameters": "ask the model: sum(p.numel() for p in model.parameters())",
    "graph": "graphs are the framework's",
    "distributed": _WORKERS,
    "DataUnit": "a frequency is (n, 'minibatch'), (n, 'sweep') or (n, 'seconds')",
    "IGNORE": "leave out the reference minibatch size: minibatch_size=None",
}


def room_error(room: str, name: str, names: Collection[str]) -> AttributeError:
    """Return the error for a name that a room of CNTK has, or that nobody has.

    Parameters
    ----------
    names : collection of str
        Those that exist in the room.
    """
    import sweephand

    if name in IN_ROOMS:
        hint = f"; {IN_ROOMS[name]}"
    elif name in sweephand.__all__:
        hint = f"; it is sweephand.{name}"
    else:
        hint = hint_at(name, names)
    return AttributeError(f"module 'sweephand.{room}' has no attribute {name!r}{hint}")


def hint_at(name: str, names: Collection[str]) -> str:
    """Return what to write in place of a name that does not exist; "" if nobody knows.

    Parameters
    ----------
    names : collection of str
        Those that exist, one of which may have been misspelled.
    """
    for known in (ELSEWHERE, IN_OTHER_LIBRARIES):
        if name in known:
            return f"; {known[name]}"
    if name.startswith("_"):  # as imports ask for rooms
        return ""
    from difflib import get_close_matches  # only here, as it takes its time to import

    lower = {one.lower(): one for one in names}
    close = get_close_matches(name.lower(), lower, 1, 0.85)
    if not close:  # ImageFolderDeserializer for ImageFolder
        close = sorted((one for one in lower if name.lower().startswith(one)), key=len)[-1:]
    if not close:
        close = get_close_matches(name.lower(), lower, 1, 0.7)
    if not close:  # JSONL for JSONLDeserializer
        close = [one for one in lower if len(name) > 2 and one.startswith(name.lower())][:1]
    return f"; is it {lower[close[0]]!r}?" if close else ""
