"""Mistakes at the source and its loops: each is told in one line, with what to write."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.mistakes.mistake import Mistake, assert_said, each

import sweephand as sh
import sweephand.torch

LENGTHS = [3, 1, 4, 1, 5, 9, 2, 6]
SIZED = "minibatch_size_in_samples"


def make_corpus() -> sh.ArrayDeserializer:
    tokens = (np.arange(sum(LENGTHS)), np.cumsum([0, *LENGTHS]))
    return sh.ArrayDeserializer({"tokens": tokens, "label": np.arange(len(LENGTHS))})


def make_source(**options: Any) -> sh.MinibatchSource:
    return sh.MinibatchSource(make_corpus(), **options)


def with_source(use: Callable[[Any], object], **options: Any) -> Callable[[Path], object]:
    return lambda folder: use(make_source(**options))


def with_minibatch(use: Callable[[Any], object], **options: Any) -> Callable[[Path], object]:
    return lambda folder: use(make_source(**options).next_minibatch(8))


def to_source(*given: Any, **options: Any) -> Callable[[Path], object]:
    return lambda folder: sh.MinibatchSource(*(given or (make_corpus(),)), **options)


def train(**options: Any) -> Callable[[Path], object]:
    trainer: Any = object()
    return lambda folder: sh.training_session(trainer, make_source(), 8, **options)


def use_when_closed(source: Any) -> object:
    source.close()
    return source.next_minibatch(8)


def take_state_of_another(source: Any) -> object:
    other = sh.MinibatchSource(sh.ArrayDeserializer({"x": np.arange(5)}))
    return source.load_state_dict(other.state_dict())


def use_what_follows_the_end(source: Any) -> object:
    while (minibatch := source.next_minibatch(8)) is not None:
        minibatch["tokens"]
    return None


def assign(minibatch: Any) -> None:
    minibatch["tokens"] = 3


DATASET: Any = sh.torch.IterableDataset
LOADER: Any = sh.torch.DataLoader
MISTAKES = [
    # A loop over the source itself.
    Mistake(
        "for in source", with_source(list), TypeError, ("source.sweep(size)", "minibatches")
    ),
    Mistake("iter(source)", with_source(iter), TypeError, ("source.sweep(size)",)),
    Mistake(
        "len(source)",
        with_source(len),
        TypeError,
        ("num_sequences_per_sweep", "len(source.sweep(size))"),
    ),
    Mistake(
        "DataLoader(source)",
        with_source(lambda source: list(torch.utils.data.DataLoader(source))),
        TypeError,
        ("sh.torch.DataLoader(sh.torch.IterableDataset(source, size))",),
    ),
    # Arguments by other names, of the source.
    Mistake("source batch_size", to_source(batch_size=8), TypeError, ("source.sweep(size)",)),
    Mistake("source shuffle", to_source(shuffle=True), TypeError, ("randomize=True",)),
    Mistake("source seed", to_source(seed=1), TypeError, ("randomization_seed=",)),
    Mistake("source num_workers", to_source(num_workers=2), TypeError, ("num_threads=",)),
    Mistake("source drop_last", to_source(drop_last=True), TypeError, ("leave it out",)),
    Mistake("source epochs", to_source(epochs=3), TypeError, ("max_sweeps=n",)),
    Mistake("source rank", to_source(rank=0), TypeError, ("partition_index=rank",)),
    Mistake(
        "source collate_fn", to_source(collate_fn=list), TypeError, ("layout=sh.Padded()",)
    ),
    Mistake("source prefetch_factor", to_source(prefetch_factor=2), TypeError, ("prefetch=",)),
    # Of what gives minibatches.
    Mistake(
        "next without a size",
        with_source(lambda source: source.next_minibatch()),
        TypeError,
        (SIZED,),
    ),
    # Of loaders.
    Mistake(
        "dataset of a deserializer",
        lambda folder: DATASET(make_corpus(), 8),
        TypeError,
        ("sh.MinibatchSource(deserializer)",),
    ),
    Mistake(
        "dataset size 0", with_source(lambda source: DATASET(source, 0)), ValueError, (SIZED,)
    ),
    Mistake(
        "loader of a source",
        with_source(lambda source: LOADER(source)),
        TypeError,
        ("sh.torch.IterableDataset(source, size)",),
    ),
    Mistake(
        "torch's loader with a batch_size",
        with_source(
            lambda source: next(
                iter(torch.utils.data.DataLoader(DATASET(source, 8), batch_size=2))
            )
        ),
        TypeError,
        ("batch_size=None", "sh.torch.IterableDataset(source, size)"),
    ),
    # Of training.
    Mistake("session batch_size", train(batch_size=8), TypeError, ("mb_size=",)),
    Mistake("session seed", train(seed=3), TypeError, ("randomization_seed",)),
    # Values.
    Mistake(
        "size 0", with_source(lambda source: source.next_minibatch(0)), ValueError, (SIZED,)
    ),
    Mistake(
        "size -1", with_source(lambda source: source.minibatches(-1)), ValueError, (SIZED,)
    ),
    Mistake("size 2.5", with_source(lambda source: source.epoch(2.5)), TypeError, ("got 2.5",)),
    Mistake(
        "size of torch",
        with_source(lambda source: source.next_minibatch(torch.tensor(8))),
        TypeError,
        ("write int(...)",),
    ),
    Mistake(
        "size of an array",
        with_source(lambda source: source.next_minibatch(np.arange(1000))),
        TypeError,
        ("got ndarray of shape (1000,)",),
    ),
    Mistake(
        "schedule in no notation",
        with_source(lambda source: source.minibatches("128x2")),
        ValueError,
        ("'value*epochs'",),
    ),
    Mistake(
        "rank outside",
        with_source(lambda source: source.next_minibatch(8, None, None, 2, 2)),
        ValueError,
        ("partition_index must be in [0, 2)",),
    ),
    Mistake("closed", with_source(use_when_closed), RuntimeError, ("make a new one",)),
    Mistake(
        "another's state", with_source(take_state_of_another), sh.StateError, ("sizes is",)
    ),
    Mistake(
        "epoch after the end",
        with_source(lambda source: [list(source.epoch(8)) for _ in range(2)], max_sweeps=1),
        RuntimeError,
        ("without max_sweeps",),
    ),
    Mistake("layout 'padded'", to_source(layout="padded"), TypeError, ("sh.Padded()",)),
    # Minibatches.
    Mistake(
        "no such stream",
        with_minibatch(lambda mb: mb["labels"]),
        KeyError,
        ("'tokens', 'label'",),
    ),
    Mistake(
        "stream as attribute",
        with_minibatch(lambda mb: mb.tokens),
        AttributeError,
        ("minibatch['tokens']",),
    ),
    Mistake(
        "no such attribute",
        with_minibatch(lambda mb: mb.features),
        AttributeError,
        ("there are: 'tokens', 'label'",),
    ),
    Mistake(
        "segments without rows",
        with_minibatch(lambda mb: mb.segment_ids),
        AttributeError,
        ("layout=Packed(...)",),
    ),
    Mistake(
        "assignment", with_minibatch(assign), TypeError, ("read-only", "minibatch.torch()")
    ),
    Mistake(
        "is not None",
        with_source(use_what_follows_the_end, max_sweeps=1),
        KeyError,
        ("if not",),
    ),
    Mistake(
        "no such stream of the source",
        with_source(lambda source: source.stream_info("x")),
        ValueError,
        ("tokens, label",),
    ),
]


@each(MISTAKES)
def test_a_mistake_is_told_with_what_to_write(mistake: Mistake, tmp_path: Path) -> None:
    assert_said(mistake, tmp_path)


@pytest.mark.parametrize("kind", [np.int64, np.uint8, int])
def test_sizes_of_numpy_are_sizes(kind: Callable[[int], Any]) -> None:
    with make_source() as source:
        assert source.next_minibatch(kind(9)).num_samples <= 9


def test_a_source_is_as_it_was_after_a_mistake() -> None:
    source = make_source()
    for wrong in (0, 2.5, "x"):
        with pytest.raises((TypeError, ValueError)):
            source.next_minibatch(wrong)  # type: ignore[arg-type]
    assert source.current_position == 0
    assert source.next_minibatch(8).ids == make_source().next_minibatch(8).ids
