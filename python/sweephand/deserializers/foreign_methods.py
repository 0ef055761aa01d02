"""Uses of corpora as data sets of other libraries, and advice for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

_MAKE_ONE = "make a source, source = sh.MinibatchSource(corpus), and"
_SOURCE = "make a source first, source = sh.MinibatchSource(corpus), and write "


def _by_name(advice: dict[str, str]) -> dict[str, str]:
    """Return advice by each of the names that are the words of a key."""
    return {name: text for names, text in advice.items() for name in names.split()}


ON_CORPUS = _by_name(
    {
        "split train_test_split random_split": (
            "write train, validation = sh.split(corpus, validation=0.1)"
        ),
        "shuffle set_epoch": (
            "shuffling is the source's: sh.MinibatchSource(corpus, randomization_seed=1)"
        ),
        "batch epoch sweep minibatches iter dataloader": f"{_SOURCE}source.sweep(size)",
        "next_minibatch next_batch": (
            f"{_SOURCE}source.next_minibatch(minibatch_size_in_samples)"
        ),
        "repeat": "it is sh.MinibatchSource(corpus, max_sweeps=n)",
        "take head sample peek first show": (
            "sh.MinibatchSource(corpus).next_minibatch(n) has its first samples, and "
            "sweephand view PATH shows them"
        ),
        "skip": f"{_SOURCE}source.current_position = samples",
        "shard": f"{_SOURCE}source.sweep(size, num_data_partitions=K, partition_index=rank)",
        "apply transform with_transform set_transform": "it is corpus.map(function)",
        "select where": "write corpus.filter(function)",
        "sort sort_by order_by": (
            "an order by score is the source's: "
            "sh.MinibatchSource(corpus, order=sh.ByScore(...))"
        ),
        "streams columns column_names features schema dtypes keys": (
            "the streams are those of its source, sh.MinibatchSource(corpus).streams"
        ),
        "classes class_names names": (
            "classes are those of its source, sh.MinibatchSource(corpus)['label'].classes"
        ),
        "prefetch": "it is sh.MinibatchSource(corpus, prefetch=n)",
        "with_format set_format to_torch": f"{_SOURCE}minibatch.torch() for tensors",
        "concat concatenate interleave mix": (
            "files of one kind are sh.open([a, b]); others sh.Mixture({'a': a, 'b': b}, "
            "weights={'a': 1, 'b': 1})"
        ),
        "join zip": "write sh.MinibatchSource([words, labels])",
        "cache": "it is corpus.map(function, cache=True)",
    }
)

# Arguments of `map` and `filter`.
ON_MAP = _by_name(
    {
        "num_proc num_workers num_parallel_calls n_jobs concurrency": (
            "it is the source's: sh.MinibatchSource(corpus, num_map_workers=n)"
        ),
        "fn_kwargs fn_args args kwargs": (
            "bind them, functools.partial(function, ...), and give the map a name="
        ),
        "remove_columns input_columns columns": (
            "streams that the function does not return are gone"
        ),
        "batch_size minibatch_size": (
            "leave it out: a size is asked for with every loop, source.sweep(size)"
        ),
        "with_indices with_rank seed key": (
            "write random=True, and function(sequence, key) has key.sequence_id and "
            "key.integer(n)"
        ),
        "load_from_cache_file keep_in_memory": "it is cache=True",
        "desc": "it is name=",
        "deterministic": "leave it out: every map is",
    }
)


class NoDataset:
    """Object that has no items by number: it is given to a source."""

    __slots__ = ()

    def __iter__(self) -> NoReturn:
        raise TypeError(
            f"a corpus is not iterated over by itself: {_MAKE_ONE} write `for minibatch in "
            "source.sweep(size)`"
        )

    def __bool__(self) -> bool:
        return True

    if not TYPE_CHECKING:  # type checkers and editors know that there are none

        def __len__(self) -> int:
            raise TypeError(
                f"a corpus has no len(): {_MAKE_ONE} it has source.num_sequences_per_sweep "
                "sequences of source.num_samples_per_sweep samples"
            )

        def __getitem__(self, number: object) -> NoReturn:
            raise TypeError(
                "a corpus has no items by number: source = sh.MinibatchSource(corpus, "
                "randomize=False) gives them in their order, source.next_minibatch(1) the next"
            )

        def __add__(self, other: object) -> NoReturn:
            raise TypeError(
                "corpora are not added: files of one kind are sh.open([a, b]), others "
                "sh.Mixture({'a': a, 'b': b}, weights={'a': 1, 'b': 1}), and streams of the "
                "same sequences sh.MinibatchSource([a, b])"
            )
