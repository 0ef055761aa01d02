"""Methods that data sets of other libraries have, and what to write instead."""

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
    | dict.fromkeys(["repeat", "take"], "it is sh.MinibatchSource(corpus, max_sweeps=n)")
    | dict.fromkeys(["skip"], f"{_SOURCE}source.current_position = samples")
    | dict.fromkeys(
        ["shard"], f"{_SOURCE}source.sweep(size, num_data_partitions=K, partition_index=rank)"
    )
    | dict.fromkeys(
        ["apply", "transform", "with_transform", "set_transform"],
        "it is corpus.map(function)",
    )
    | dict.fromkeys(["select"], "write corpus.filter(function)")
    | dict.fromkeys(
        ["concatenate", "interleave", "mix"],
        "write sh.Mixture({'a': a, 'b': b}, weights={'a': 1, 'b': 1})",
    )
    | dict.fromkeys(["join", "zip"], "write sh.MinibatchSource([words, labels])")
    | dict.fromkeys(["cache"], "it is corpus.map(function, cache=True)")
)
