"""Spikes: the loss of a run with poison, and of the same run with a policy."""

import logging

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

import sweephand as sh

SIZE = 64
SEQUENCES = 400 * SIZE
POISON = (9_000, 17_000)


class Losses(sh.train.ProgressWriter):
    """A progress writer that keeps the loss of every step; what is trained again, once."""

    def __init__(self) -> None:
        self.by_step: dict[int, float] = {}

    def update(self, step: sh.train.Step) -> None:
        """Keep a step."""
        self.by_step[step.step] = step.loss / step.num_samples


def cross_entropy(model: dict, minibatch: sh.Minibatch) -> tuple[float, list]:
    """Return the sum of the loss over the minibatch, and those of the gradients."""
    x, labels = minibatch["x"].values, minibatch["labels"].values
    logits = x @ model["w"]
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    places = np.arange(len(x))
    loss = -np.log(p[places, labels] + 1e-30).sum()
    p[places, labels] -= 1
    return float(loss), [x.T @ p]


def train(policy: sh.SpikePolicy | None) -> tuple[dict[int, float], sh.train.SpikeReport]:
    """Train a classifier, and return its losses and the report."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, SEQUENCES)
    x = (2 * np.eye(4)[labels] + rng.normal(0, 1, (SEQUENCES, 4))).astype(np.float32)
    for place in POISON:
        x[place] = 600 * (labels[place] == np.arange(4)) * -1.0
    corpus = sh.ArrayDeserializer({"x": x, "labels": labels})
    model = {"w": np.zeros((4, 4), np.float32)}
    losses = Losses()
    learner = sh.numpy.SGD(model, sh.learning_parameter_schedule(0.3))
    sh.training_session(
        sh.Trainer(model, cross_entropy, learner, losses),
        sh.MinibatchSource(corpus, randomize=False, max_sweeps=1),
        SIZE,
        activities=[] if policy is None else [policy],
    ).train()
    return losses.by_step, policy.report if policy else sh.train.SpikeReport()


def draw() -> Figure:
    """Draw both runs."""
    logging.getLogger("sweephand").setLevel(logging.ERROR)
    figure, axis = plt.subplots(figsize=(8, 3.4), layout="constrained")
    without, _ = train(None)
    healed, report = train(sh.SpikePolicy(action="bisect", signal="both"))
    axis.plot(list(without), list(without.values()), color="C3", label="as it was")
    axis.plot(list(healed), list(healed.values()), color="C0", label="with a SpikePolicy")
    for spike in report.spikes:
        axis.annotate(
            f"{', '.join(spike.banned_ids)} banned",
            (spike.step, 0.2),
            ha="center",
            color="C0",
            fontsize=8,
        )
    axis.set_yscale("log")
    axis.set_xlabel("steps")
    axis.set_ylabel("loss per sample")
    axis.grid(alpha=0.3)
    axis.legend()
    return figure
