"""Methods that sources of other libraries have, and what to write instead."""

from __future__ import annotations

_OF_CORPUS = "it is the corpus', before the source: sh.MinibatchSource(corpus.{}(function))"
_SHUFFLED = (
    "sweeps are shuffled already, by randomize=True and randomization_seed=; "
    "MinibatchSource(..., randomize=False) keeps the order"
)
_LOOPS = "write `for minibatch in source.sweep(size)`, a size in samples"
_SHARE = "write source.sweep(size, num_data_partitions=K, partition_index=rank)"

ON_SOURCE: dict[str, str] = (
    {name: _OF_CORPUS.format(name) for name in ("map", "filter")}
    | dict.fromkeys(["apply", "transform", "with_transform"], _OF_CORPUS.format("map"))
    | dict.fromkeys(["shuffle", "set_epoch", "reshuffle"], _SHUFFLED)
    | dict.fromkeys(
        ["batch", "iter", "iterate", "dataloader", "get_batch", "next_batch", "iter_batches"],
        _LOOPS,
    )
    | dict.fromkeys(
        ["split", "train_test_split", "random_split"],
        "split the corpus, train, validation = sh.split(corpus, validation=0.1), and make a "
        "source of each part",
    )
    | dict.fromkeys(["shard", "split_dataset_by_node"], _SHARE)
    | dict.fromkeys(
        ["repeat", "take"],
        "a source goes on for ever, until MinibatchSource(..., max_sweeps=n) or max_samples=n",
    )
    | dict.fromkeys(
        ["skip", "seek"],
        "set source.current_position = samples, or source.events.skip(start, stop)",
    )
    | {"prefetch": "it is MinibatchSource(..., prefetch=n), in minibatches"}
    | dict.fromkeys(
        ["concatenate", "interleave", "zip"],
        "corpora are joined by sh.MinibatchSource([words, labels]) and mixed by sh.Mixture",
    )
    | dict.fromkeys(["reset", "reset_state"], "set source.current_position = 0 to begin anew")
    | {"save_state": "it is source.get_checkpoint_state(), or state_dict()"}
    | dict.fromkeys(
        ["to_torch", "torch", "to_tf"],
        "tensors come by minibatch.torch(device); a loader is "
        "sh.torch.DataLoader(sh.torch.IterableDataset(source, size))",
    )
)
