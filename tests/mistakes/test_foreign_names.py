"""Names of other libraries, asked of every object that newcomers have in hand."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.mistakes.mistake import Mistake, assert_said, each

import sweephand as sh
import sweephand.torch
from sweephand.deserializers.foreign_methods import ON_CORPUS, ON_MAP
from sweephand.minibatch.foreign_names import ON_DATA, ON_MINIBATCH
from sweephand.source import foreign_names
from sweephand.source.foreign_methods import ON_SOURCE
from sweephand.source.old_names import ELSEWHERE, IN_OTHER_LIBRARIES

X = np.arange(12.0).reshape(4, 3)
S: Any = sh.MinibatchSource
SPLIT: Any = sh.split
LEARNER: Any = sh.torch.Learner


def corpus() -> Any:
    return sh.ArrayDeserializer({"x": X, "y": np.arange(4)})


def minibatch() -> Any:
    return S(corpus()).next_minibatch(2)


def same(sequence: Any) -> Any:
    return sequence


def under_scale() -> Any:
    return sh.LossScaleOptimizer(torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], 0.1))


def optimizer() -> Any:
    return under_scale().inner_optimizer


def scheduler() -> Any:
    return torch.optim.lr_scheduler.StepLR(optimizer(), 3)


def at(attribute: str, make: Callable[[], Any]) -> Callable[[Path], object]:
    return lambda folder: getattr(make(), attribute)


MISTAKES = [
    # Data by names, in a row, and in lists.
    Mistake("S(x=X, y=y)", lambda _: S(x=X, y=[1, 2]), TypeError, ("{'x': x, 'y': y}",)),
    Mistake("S(features=X)", lambda _: S(features=X), TypeError, ("{'features': features}",)),
    Mistake("S(train=corpus)", lambda _: S(train=corpus()), TypeError, ("without a name",)),
    Mistake(
        "S(streams=[...])",
        lambda _: S(corpus(), streams=["x"]),
        TypeError,
        ("streams are the deserializer's",),
    ),
    Mistake("S(path, path)", lambda _: S("a.csv", "b.csv"), TypeError, ("sh.open(['a.csv'",)),
    Mistake("S([path, path])", lambda _: S(["a", "b"]), TypeError, ("sh.open(['a', ...",)),
    Mistake(
        "S(zip)",
        lambda _: S(list(zip([1], [2], strict=True))),
        TypeError,
        ("{'x': x, 'y': y} for x, y in data",),
    ),
    Mistake("S((list, list))", lambda _: S(([1, 2], [3, 4])), TypeError, ("'y': data[1]",)),
    Mistake("S(source)", lambda _: S(S(corpus())), TypeError, ("that it was made of",)),
    Mistake(
        "a mixture of sources",
        lambda _: sh.Mixture({"a": S(corpus())}, {"a": 1}),
        TypeError,
        ("that it was made of",),
    ),
    Mistake(
        "a source by classes",
        lambda _: sh.Mixture.by(S(corpus()), "y"),
        TypeError,
        ("Mixture.by takes a corpus", "that it was made of"),
    ),
    Mistake(
        "items of a corpus",
        lambda _: sh.MapDeserializer(corpus()),
        TypeError,
        ("sh.MinibatchSource(deserializer)",),
    ),
    # A corpus as a data set.
    Mistake("len(corpus)", lambda _: len(corpus()), TypeError, ("num_sequences_per_sweep",)),
    Mistake("corpus[0]", lambda _: corpus()[0], TypeError, ("source.next_minibatch(1)",)),
    Mistake("a + b", lambda _: corpus() + corpus(), TypeError, ("sh.open([a, b])", "Mixture")),
    # Splits.
    Mistake("split .1", lambda _: SPLIT(corpus(), 0.1), TypeError, ("validation=0.1",)),
    Mistake("split X, y", lambda _: SPLIT(X, X, test=0.1), TypeError, ("{'x': X, 'y': y}",)),
    Mistake(
        "split stratify", lambda _: SPLIT(corpus(), stratify="y"), ValueError, ("by='label'",)
    ),
    Mistake(
        "split random_state",
        lambda _: SPLIT(corpus(), test=0.1, random_state=7),
        ValueError,
        ("it is seed=",),
    ),
    # Maps.
    Mistake(
        "map num_proc",
        lambda _: corpus().map(same, num_proc=4),
        TypeError,
        ("num_map_workers",),
    ),
    Mistake(
        "map fn_kwargs", lambda _: corpus().map(same, fn_kwargs={}), TypeError, ("partial",)
    ),
    Mistake(
        "filter num_proc", lambda _: corpus().filter(same, num_proc=4), TypeError, ("filter()",)
    ),
    Mistake("map typo", lambda _: corpus().map(same, nmae="a"), TypeError, ("is it 'name'?",)),
    Mistake(
        "map of two",
        lambda _: corpus().map(lambda sample, draws: sample),
        TypeError,
        ("sample = sequence['sample']", "with random=True the second argument"),
    ),
    # Streams and minibatches.
    Mistake(
        "source['nope']", lambda _: S(corpus())["nope"], KeyError, ("there are: 'x', 'y'",)
    ),
    Mistake("source[0]", lambda _: S(corpus())[0], KeyError, ("there are: 'x', 'y'",)),
    Mistake("source[:2]", lambda _: S(corpus())[:2], KeyError, ("there are: 'x', 'y'",)),
    Mistake(
        "tensors of a type",
        lambda _: minibatch().torch(dtype="int64"),
        TypeError,
        ("minibatch['x'].torch(dtype=...)", "StreamDef(dtype=...)"),
    ),
    Mistake("minibatch.numpy", at("numpy", minibatch), AttributeError, ("minibatch['x'].",)),
    Mistake(
        "stream.numpy", at("numpy", lambda: minibatch()["x"]), AttributeError, (".asarray()",)
    ),
    # Torch.
    Mistake("opt.scale", at("scale", under_scale), AttributeError, ("get_scaled_loss(loss)",)),
    Mistake("opt.get_scale", at("get_scale", under_scale), AttributeError, ("loss_scale",)),
    Mistake(
        "a learner of parameters",
        lambda _: LEARNER(torch.nn.Linear(1, 1).parameters(), 0.1),
        TypeError,
        ("torch.optim.Adam(model.parameters())",),
    ),
    Mistake(
        "a scheduler as a schedule",
        lambda _: LEARNER(optimizer(), scheduler()),
        TypeError,
        ("got StepLR", "lr_schedule=None"),
    ),
    Mistake(
        "sh.torch.Trainer", lambda _: sh.torch.Trainer, AttributeError, ("sweephand.Trainer",)
    ),
    Mistake(
        "sh.torch.Adam",
        lambda _: sh.torch.Adam,
        AttributeError,
        ("around any torch optimizer",),
    ),
    Mistake(
        "sh.torch.IterableDatasets",
        lambda _: sh.torch.IterableDatasets,
        AttributeError,
        ("is it 'IterableDataset'?",),
    ),
    # The package.
    Mistake(
        "sh.ImageFolderDeserializer",
        lambda _: sh.ImageFolderDeserializer,
        AttributeError,
        ("is it 'ImageFolder'?",),
    ),
    Mistake("C.layers", lambda _: sh.layers, AttributeError, ("torch.nn.Module",)),
    Mistake("C.relu", lambda _: sh.relu, AttributeError, ("torch.nn.Module",)),
    Mistake("sh.tokenizer", lambda _: sh.tokenizer, AttributeError, ("size='measured'",)),
    Mistake("sh.set_seed", lambda _: sh.set_seed, AttributeError, ("randomization_seed=1",)),
]


@each(MISTAKES)
def test_a_foreign_name_is_answered_by_ours(mistake: Mistake, tmp_path: Path) -> None:
    assert_said(mistake, tmp_path)


HELD: dict[str, tuple[Callable[[], Any], Mapping[str, str]]] = {
    "a source": (lambda: S(corpus()), ON_SOURCE),
    "a corpus": (corpus, ON_CORPUS),
    "a minibatch": (minibatch, ON_MINIBATCH),
    "a stream": (lambda: minibatch()["x"], ON_DATA),
}


@pytest.mark.parametrize("held", HELD)
def test_no_name_that_is_answered_exists(held: str) -> None:
    make, foreign = HELD[held]
    there = [name for name in foreign if hasattr(make(), name)]
    assert not there


def test_no_public_name_is_answered_as_foreign() -> None:
    assert not {*dir(sh)} & (IN_OTHER_LIBRARIES | ELSEWHERE).keys()


def test_no_argument_that_is_answered_exists() -> None:
    takes = {
        sh.MinibatchSource.__init__: foreign_names.SOURCE,
        sh.MinibatchSource.sweep: foreign_names.SIZED,
        sh.Deserializer.map: ON_MAP,
        sh.Deserializer.filter: ON_MAP,
    }
    for function, foreign in takes.items():
        known = signature(function).parameters.keys() - {"self"}
        assert known
        assert not known & foreign.keys() - {"num_data_partitions", "partition_index"}


def test_a_part_may_have_any_name() -> None:
    assert [str(part)[:5] for part in sh.split(corpus(), stratify=0.5)] == ["train", "strat"]


def test_a_corpus_is_true_and_pickles() -> None:
    assert corpus()
    assert S(pickle.loads(pickle.dumps(corpus()))).num_sequences_per_sweep == 4


def test_the_old_name_of_a_limit_is_told_at_the_line_of_the_user() -> None:
    with pytest.warns(DeprecationWarning, match="max_samples") as said:
        S(corpus(), epoch_size=2)
    assert said[0].filename == __file__
