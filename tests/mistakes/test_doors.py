"""Doors that newcomers try first, and what stands on them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.mistakes.mistake import Mistake, assert_said, each
from tests.mistakes.newcomer import X, with_packages

import sweephand as sh

S: Any = sh.MinibatchSource
SPLIT: Any = sh.split
Y = np.arange(4) % 2
ARRAYS = "{'x': data[0], 'y': data[1]}"


def corpus() -> Any:
    return sh.ArrayDeserializer({"x": X, "y": Y})


def source() -> Any:
    return sh.MinibatchSource(corpus())


def crop(sequence: Any, key: Any) -> Any:
    return {"x": sequence["x"][: key.integer(2) + 1]}


def two_streams(x: Any, y: Any) -> Any:
    return {"x": x + y}


def same(sequence: Any) -> Any:
    return sequence


def unequal_files(folder: Path) -> Any:
    for number in range(120):
        shape = (5 + number, 3) if number else (5,)
        np.save(folder / f"part{number:03}.npy", np.zeros(shape))
    return sh.open(folder)


def model() -> torch.nn.Module:
    return torch.nn.Linear(3, 2)


def trained_by(learners: Any, criterion: Any = lambda model, minibatch: 0) -> Any:
    return sh.Trainer(model(), criterion, learners)


def optimizer() -> Any:
    return torch.optim.SGD(model().parameters(), 0.1)


def mixed() -> Any:
    return sh.MinibatchSource(sh.Mixture({"a": corpus(), "b": corpus()}, {"a": 1, "b": 1}))


MISTAKES = [
    Mistake("S((X, y))", lambda _: S((X, Y)), TypeError, ("a tuple of ndarray", ARRAYS)),
    Mistake("S([X, y])", lambda _: S([X, Y]), TypeError, ("a list of ndarray", ARRAYS)),
    Mistake("ragged", lambda _: S([X, X[:2]]), TypeError, ("{'x': data}",)),
    Mistake("S(X, y)", lambda _: S(X, Y), TypeError, ("sh.MinibatchSource({'x': X, 'y': y})",)),
    Mistake("S(corpus, 32)", lambda _: S(corpus(), 32), TypeError, ("source.sweep(size)",)),
    Mistake(
        "S(a, b)", lambda _: S(corpus(), corpus()), TypeError, ("MinibatchSource([a, b])",)
    ),
    Mistake("S()", lambda _: S(), TypeError, ("MinibatchSource() needs deserializers",)),
    Mistake("split of arrays", lambda _: SPLIT(X, test=0.1), TypeError, ("{'x': array}",)),
    Mistake("split of a path", lambda _: SPLIT("a", test=0.1), TypeError, ("sh.open('a')",)),
    Mistake(
        "split of a source",
        lambda _: SPLIT(source(), test=0.1),
        TypeError,
        ("give the corpus that it was made of", "sh.split(corpus", "sh.MinibatchSource(train)"),
    ),
    Mistake(
        "split of a join",
        lambda _: SPLIT([corpus(), corpus()], test=0.1),
        TypeError,
        ("split the first", "[train, labels]"),
    ),
    Mistake("source.map", lambda _: source().map(same), AttributeError, ("corpus.map(",)),
    Mistake(
        "source.filter", lambda _: source().filter(same), AttributeError, ("corpus.filter",)
    ),
    Mistake(
        "source.split", lambda _: source().split(0.1), AttributeError, ("sh.split(corpus",)
    ),
    Mistake("source.shuffle", lambda _: source().shuffle(8), AttributeError, ("already",)),
    Mistake("source.batch", lambda _: source().batch(8), AttributeError, ("source.sweep(",)),
    Mistake(
        "corpus.split", lambda _: corpus().split(0.1), AttributeError, ("sh.split(corpus",)
    ),
    Mistake(
        "corpus.shuffle", lambda _: corpus().shuffle(9), AttributeError, ("MinibatchSource(",)
    ),
    Mistake("for in corpus", lambda _: list(corpus()), TypeError, ("source.sweep(size)",)),
    Mistake("a random map", lambda _: corpus().map(crop), TypeError, ("'crop'", "random=True")),
    Mistake(
        "a map of streams",
        lambda _: corpus().map(two_streams),
        TypeError,
        ("'two_streams'", "(x, y)", "x = sequence['x']"),
    ),
    Mistake(
        "a map that draws nothing",
        lambda _: corpus().map(same, random=True),
        TypeError,
        ("'same'", "leave out random=True"),
    ),
    Mistake(
        "a filter that draws", lambda _: corpus().filter(crop), TypeError, ("draws nothing",)
    ),
    Mistake(
        "an optimizer",
        lambda _: trained_by(optimizer()),
        TypeError,
        ("got SGD", "sh.torch.Learner(optimizer, lr_schedule)"),
    ),
    Mistake(
        "an optimizer under a loss scale",
        lambda _: trained_by(sh.LossScaleOptimizer(optimizer())),
        TypeError,
        ("got LossScaleOptimizer", "sh.torch.Learner(optimizer, lr_schedule)"),
    ),
    Mistake(
        "a loss of torch as criterion",
        lambda _: trained_by(sh.torch.Learner(optimizer(), 0.1), torch.nn.CrossEntropyLoss()),
        TypeError,
        ("def criterion(model, minibatch)", "reduction='sum'"),
    ),
    Mistake(
        "criterion and optimizer in the other order",
        lambda _: trained_by(lambda model, minibatch: 0, optimizer()),
        TypeError,
        ("criterion must be callable", "Trainer(model, criterion, learners)"),
    ),
    Mistake(
        "an optimizer of torch with arrays",
        lambda _: sh.Trainer({"w": X}, same, optimizer()),
        TypeError,
        ("got SGD", "sh.numpy.Adam"),
    ),
    Mistake(
        "sh.DataLoader",
        lambda _: sh.DataLoader,
        AttributeError,
        ("sweephand.torch.DataLoader",),
    ),
    Mistake("sh.Dataset", lambda _: sh.Dataset, AttributeError, ("sweephand.open(path)",)),
    Mistake("sh.Padding", lambda _: sh.Padding, AttributeError, ("sh.Padded()",)),
    Mistake(
        "sh.Adam",
        lambda _: sh.Adam,
        AttributeError,
        ("sweephand.numpy", "sweephand.torch.Learner"),
    ),
    Mistake("sh.MiniBatchSource", lambda _: sh.MiniBatchSource, AttributeError, ("is it",)),
    Mistake("sh.JSONL", lambda _: sh.JSONL, AttributeError, ("is it 'JSONLDeserializer'?",)),
    Mistake("find", lambda _: source().find("nope"), KeyError, ("look like 'array__0'",)),
    Mistake(
        "find one near",
        lambda _: source().find("aray__2"),
        KeyError,
        ("near to it", "array__2"),
    ),
    Mistake("find a number", lambda _: source().find(2), TypeError, ("text", "'array__0'")),
    Mistake(
        "ban one near", lambda _: source().events.ban(["aray__2"]), ValueError, ("'array__2'",)
    ),
    Mistake(
        "a mixture in a loader",
        lambda _: sh.torch.IterableDataset(mixed(), 2),
        ValueError,
        ("samples_per_iteration=n",),
    ),
    Mistake(
        "unequal files",
        unequal_files,
        ValueError,
        ("'part002' has 7, and so on: 120 streams", "'part000' are float64 of shape ()"),
    ),
    Mistake(
        "a scheduler around a loss scale",
        with_packages(
            lambda p: p.torch.optim.lr_scheduler.LambdaLR(
                sh.LossScaleOptimizer(optimizer()), lambda step: 1.0
            )
        ),
        AttributeError,
        ("opt.inner_optimizer.param_groups", "LambdaLR(opt.inner_optimizer"),
    ),
]


@each(MISTAKES)
def test_a_door_says_where_to_go(mistake: Mistake, tmp_path: Path) -> None:
    assert_said(mistake, tmp_path)


@pytest.mark.parametrize("data", [{"x": X, "y": Y}, pytest.param(None, id="DataFrame")])
def test_data_in_hand_are_split_as_they_are(data: Any) -> None:
    if data is None:
        data = pytest.importorskip("pandas").DataFrame({"x": np.arange(40), "y": 1.0})
    train, validation = sh.split(data, validation=0.5, seed=1)
    whole = sum(S(part).num_sequences_per_sweep for part in (train, validation))
    assert whole == S(data).num_sequences_per_sweep


def test_parts_of_the_first_are_joined_with_the_others() -> None:
    words, labels = (
        sh.ArrayDeserializer({"x": np.arange(40)}),
        sh.ArrayDeserializer({"y": -np.arange(40)}),
    )
    for part in sh.split(words, validation=0.5):
        minibatch = S([part, labels]).next_minibatch(8)
        assert minibatch["x"].values.tolist() == (-minibatch["y"].values).tolist()


def test_a_part_shows_its_share_and_its_corpus() -> None:
    train, validation = sh.split(corpus(), validation=0.25, seed=3)
    assert repr(validation).startswith(
        "validation of split(train=0.75, validation=0.25, seed=3)"
    )
    assert repr(train).endswith(repr(corpus()))


def test_a_minibatch_larger_than_the_corpus_is_hinted_at_once() -> None:
    it = source()
    wanted = r"larger than the corpus, 4, .*source\.sweep"
    with pytest.warns(sh.SweephandHint, match=wanted) as said:
        it.next_minibatch(40)
    assert said[0].filename == __file__
    with warnings.catch_warnings(action="error"):
        it.next_minibatch(40)
