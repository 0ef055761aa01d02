"""Small runs with planted poison, for the tests of spikes."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

import sweephand as sh

KINDS = ("labels", "features", "n-grams")  # shuffled, NaN, repeated
WORDS = 8
CLASSES = 4


class Planted(NamedTuple):
    """What a run trains on, and which sequences of it are poison."""

    corpus: sh.ArrayDeserializer
    poison: set[str]
    is_text: bool


def planted(seed: int, kind: str | None, count: int | None = None) -> Planted:
    """Make a corpus with some poison of a kind."""
    rng = np.random.default_rng(seed)
    is_text = seed % 2 == 0 if kind is None else kind == "n-grams"
    number = int(rng.integers(1, 4)) if count is None else count
    bad = (
        set() if kind is None else {int(one) for one in rng.choice(640, number, replace=False)}
    )
    corpus = texts(rng, bad) if is_text else lines(rng, kind, bad)
    return Planted(corpus, {f"array__{one}" for one in bad}, is_text)


def lines(rng: np.random.Generator, kind: str | None, bad: set[int]) -> sh.ArrayDeserializer:
    """Make sequences whose labels are linear in their features, but for noise."""
    lengths = rng.integers(4, 13, 640)
    offsets = np.append(0, np.cumsum(lengths))
    x = rng.normal(size=(offsets[-1], 4)).astype(np.float32)
    labels = (x @ [2, -1, 1, 0] + rng.normal(0, 0.3, len(x))).astype(np.float32)
    for one in bad:
        part = slice(offsets[one], offsets[one + 1])
        if kind == "labels":
            labels[part] = rng.permutation(labels)[: lengths[one]] * 3
        else:
            x[part][rng.integers(lengths[one]), rng.integers(4)] = np.nan
    return sh.ArrayDeserializer({"x": (x, offsets), "labels": (labels, offsets)})


def texts(rng: np.random.Generator, bad: set[int]) -> sh.ArrayDeserializer:
    """Make texts whose words mostly follow each other in a cycle."""
    made = []
    for number in range(640):
        count = rng.integers(5, 13)
        steps = np.where(rng.random(count) < 0.9, 1, rng.integers(0, WORDS, count))
        text = (rng.integers(WORDS) + np.cumsum(steps)) % WORDS
        if number in bad:
            gram = rng.integers(WORDS) + np.cumsum([0, 3, 3])
            text = np.tile(gram % WORDS, 20)
        made.append(text.astype(np.int64))
    return sh.ArrayDeserializer({"labels": made})


def points(poison: Sequence[int], far: float, seed: int = 0) -> sh.ArrayDeserializer:
    """Make sequences of points of some classes, of which some are far on the wrong side."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(3, 13, 500)
    offsets = np.append(0, np.cumsum(lengths))
    labels = rng.integers(0, CLASSES, offsets[-1])
    x = (2 * np.eye(CLASSES)[labels] + rng.normal(0, 1, (len(labels), CLASSES))).astype("f4")
    for place in poison:
        part = slice(offsets[place], offsets[place + 1])
        x[part] = far * np.eye(CLASSES)[labels[part]]
    return sh.ArrayDeserializer({"x": (x, offsets), "labels": (labels, offsets)})


def squared_error(model: dict[str, Any], minibatch: sh.Minibatch) -> Any:
    """Return the sum of half the squared errors, and its gradient."""
    x, y = minibatch["x"].values, minibatch["labels"].values
    error = x @ model["w"] - y
    return 0.5 * float(error @ error), [x.T @ error]


def bigram_loss(model: dict[str, Any], minibatch: sh.Minibatch) -> Any:
    """Return the loss of each word after the one before it, and the gradient."""
    data = minibatch["labels"]
    follows = np.ones(data.num_samples, bool)
    follows[data.offsets[:-1]] = False
    new = np.flatnonzero(follows)
    before, words = data.values[new - 1], data.values[new]
    logits = model["w"][before]
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    places = np.arange(len(words))
    loss = -np.log(p[places, words]).sum()
    p[places, words] -= 1
    gradient = np.zeros_like(model["w"])
    np.add.at(gradient, before, p)
    return float(loss), [gradient]


class Run(NamedTuple):
    """A session with its model and source."""

    session: sh.train.TrainingSession
    model: dict[str, Any]
    source: sh.MinibatchSource
    trainer: sh.Trainer
    policy: sh.SpikePolicy | None

    @property
    def report(self) -> sh.train.SpikeReport:
        """The spikes of the run; none without a policy."""
        return sh.train.SpikeReport() if self.policy is None else self.policy.report


def session(
    data: Planted,
    policy: sh.SpikePolicy | None,
    *,
    events: Any = (),
    seed: int = 0,
    sweeps: int = 3,
    size: int = 128,
    randomize: bool = True,
    writers: Any = (),
    criterion: Any = None,
    rate: Any = None,
    learner_of: Any = sh.numpy.Adam,
    loss_scale: dict[str, Any] | None = None,
    **options: Any,
) -> Run:
    """Make a session over lines or texts."""
    model = {"w": np.zeros((WORDS, WORDS) if data.is_text else 4, np.float32)}
    rate = rate or sh.learning_parameter_schedule(0.1)
    learner: Any = learner_of(model, rate)
    if loss_scale is not None:
        learner = sh.LossScaleOptimizer(learner, **loss_scale)
    criterion = criterion or (bigram_loss if data.is_text else squared_error)
    trainer = sh.Trainer(model, criterion, learner, list(writers))
    source = sh.MinibatchSource(
        data.corpus,
        randomization_seed=seed,
        randomize=randomize,
        max_sweeps=sweeps,
        num_threads=0,
        events=events,
    )
    policy = policy and replace(policy)  # one for each session
    activities = [] if policy is None else [policy]
    made = sh.training_session(trainer, source, size, activities=activities, **options)
    return Run(made, model, source, trainer, policy)
