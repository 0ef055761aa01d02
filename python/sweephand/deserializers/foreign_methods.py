"""Methods and arguments of data sets of other libraries, and what to write instead."""

from __future__ import annotations

_SOURCE = "make a source first, source = sh.MinibatchSource(corpus), and write "

ON_CORPUS: dict[str, str] = (
    dict.fromkeys(
        ["split", "train_test_split", "random_split"],
        "write train, validation = sh.split(corpus, validation=0.1)",
    )
    | dict.fromkeys(
        ["shuffle", "set_epoch"],
        "shuffling is the source's: sh.MinibatchSource(corpus, randomization_seed=1)",
    )
    | dict.fromkeys(
        ["batch", "epoch", "sweep", "minibatches", "iter", "dataloader"],
        f"{_SOURCE}source.sweep(size)",
    )
    | dict.fromkeys(
        ["next_minibatch", "next_batch"],
        f"{_SOURCE}source.next_minibatch(minibatch_size_in_samples)",
    )
    | dict.fromkeys(["repeat"], "it is sh.MinibatchSource(corpus, max_sweeps=n)")
    | dict.fromkeys(
        ["take", "head", "sample", "peek", "first", "show"],
        "sh.MinibatchSource(corpus).next_minibatch(n) has its first samples, and "
        "sweephand view PATH shows them",
    )
    | dict.fromkeys(["skip"], f"{_SOURCE}source.current_position = samples")
    | dict.fromkeys(
        ["shard"], f"{_SOURCE}source.sweep(size, num_data_partitions=K, partition_index=rank)"
    )
    | dict.fromkeys(
        ["apply", "transform", "with_transform", "set_transform"],
        "it is corpus.map(function)",
    )
    | dict.fromkeys(["select", "where"], "write corpus.filter(function)")
    | dict.fromkeys(
        ["sort", "sort_by", "order_by"],
        "an order by score is the source's: sh.MinibatchSource(corpus, order=sh.ByScore(...))",
    )
    | dict.fromkeys(
        ["streams", "columns", "column_names", "features", "schema", "dtypes", "keys"],
        "the streams are those of its source, sh.MinibatchSource(corpus).streams",
    )
    | dict.fromkeys(
        ["classes", "class_names", "names"],
        "classes are those of its source, sh.MinibatchSource(corpus)['label'].classes",
    )
    | dict.fromkeys(["prefetch"], "it is sh.MinibatchSource(corpus, prefetch=n)")
    | dict.fromkeys(
        ["with_format", "set_format", "to_torch"],
        f"{_SOURCE}minibatch.torch() for tensors",
    )
    | dict.fromkeys(
        ["concat", "concatenate", "interleave", "mix"],
        "files of one kind are sh.open([a, b]); others sh.Mixture({'a': a, 'b': b}, "
        "weights={'a': 1, 'b': 1})",
    )
    | dict.fromkeys(["join", "zip"], "write sh.MinibatchSource([words, labels])")
    | dict.fromkeys(["cache"], "it is corpus.map(function, cache=True)")
)

# Arguments of `map` and `filter`.
ON_MAP: dict[str, str] = (
    dict.fromkeys(
        ["num_proc", "num_workers", "num_parallel_calls", "n_jobs", "concurrency"],
        "it is the source's: sh.MinibatchSource(corpus, num_map_workers=n)",
    )
    | dict.fromkeys(
        ["fn_kwargs", "fn_args", "args", "kwargs"],
        "bind them, functools.partial(function, ...), and give the map a name=",
    )
    | dict.fromkeys(
        ["remove_columns", "input_columns", "columns"],
        "streams that the function does not return are gone",
    )
    | dict.fromkeys(
        ["batch_size", "minibatch_size"],
        "leave it out: a size is asked for with every loop, source.sweep(size)",
    )
    | dict.fromkeys(
        ["with_indices", "with_rank", "seed", "key"],
        "write random=True, and function(sequence, key) has key.sequence_id and key.integer(n)",
    )
    | dict.fromkeys(["load_from_cache_file", "keep_in_memory"], "it is cache=True")
    | {"desc": "it is name=", "deterministic": "leave it out: every map is"}
)
