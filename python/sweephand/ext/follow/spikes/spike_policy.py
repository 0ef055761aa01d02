"""Definition of a spike, and the actions of a session against it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from sweephand.ext.follow.spikes.band import LEAST_FIGURES
from sweephand.ext.follow.spikes.spike import Spike
from sweephand.extend import ArgumentTypeError, Step, check_int, check_number, check_path

SpikeAction: TypeAlias = Literal["skip", "bisect", "ignore", "stop"]
SpikeSignal: TypeAlias = Literal["loss", "gradient norm", "both"]


@dataclass(frozen=True)
class SpikePolicy:
    """Detection of loss spikes, rollback, and removal of the cause.

    After every step its figures are compared with the last healthy ones, as a distance above
    their median in robust standard deviations (1.4826 MAD), of logarithms while all are
    positive. Figures beyond ``threshold``, or not finite, are out of the band. A step that a
    loss scale skips is no spike; a `LossScaleError` is one.

    After a spike, model, learners, random states, source, ledgers and progress go back to the
    last snapshot, and training repeats up to the first possible cause. There trials, which
    leave no trace, find the minibatch without which the next ones are healthy: the first one
    out of the band, or one of ``reach`` before it, whose update broke the model. If there is
    none, the cause is no minibatch (but a rate that is too high, or another mixture): a new
    band begins there, and nothing is left out.

    The cause is left out by an event of the source, which appears in its list, in checkpoints
    and in the report. All workers decide alike, by the figures of all.

    Parameters
    ----------
    threshold : float
        In robust standard deviations. Among 10^6 healthy steps with log-normal losses of any
        scatter, no loss is above 8.
    action : {"skip", "bisect"} or callable
        "skip": the minibatch is skipped. "bisect": trials with halves of it find the sequences
        that spike alone, k of n in about k log2 n + 2 steps, and they are banned from there on;
        if no half spikes, the minibatch is skipped. ``action(spike)`` returns one of these, or
        "ignore" (train on it) or "stop" (raise `SpikeError`). It is called on all workers, and
        the result of the first one counts.
    signal : {"loss", "gradient norm", "both"} or callable
        The figures: the loss per label sample, or the norm of the mean gradient, which takes a
        pass over the gradients of each step. ``signal(step)`` returns a figure of a `Step`,
        or True if it is a spike and False if not; it must be a function of the step alone.
    window : int
        Number of healthy steps in the band; before 32 of them only NaN and infinity are out.
    patience : int
        Steps in a row that must be out of the band, if they are finite.
    reach : int
        Minibatches before the first one out of the band that can have caused it.
    frequency : int
        Minibatches between snapshots, of which two are kept in main memory.
    max_spikes : int
        More of them raise `SpikeError`.
    report : path, optional
        A JSON file, with a text file beside it; by default ``spikes.json`` in the folder of
        checkpoints. Without either there is `TrainingSession.spike_report` alone.

    Raises
    ------
    ArgumentTypeError, ValueError
        If an argument is of a wrong type or out of range.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> labels = np.random.default_rng(0).normal(2, 1, 400).astype(np.float32)
    >>> labels[201] = 1e6
    >>> corpus = sh.ArrayDeserializer({"labels": labels})
    >>> model = {"mean": np.zeros(1, np.float32)}
    >>> def squared_error(model, minibatch):
    ...     error = model["mean"] - minibatch["labels"].values
    ...     return float(error @ error), [2 * error.sum(keepdims=True)]
    >>> trainer = sh.Trainer(model, squared_error, sh.numpy.SGD(model, 0.1))
    >>> session = sh.training_session(
    ...     trainer, sh.MinibatchSource(corpus, max_sweeps=1, randomize=False), 4,
    ...     spike_policy=sh.SpikePolicy(action="bisect"))
    >>> session.train()
    >>> session.spike_report.spikes[0].banned_ids, trainer.total_number_of_samples_seen
    (('array__201',), 399)
    """

    threshold: float = 8.0
    action: Literal["skip", "bisect"] | Callable[[Spike], SpikeAction] = "skip"
    signal: SpikeSignal | Callable[[Step], float] = "loss"
    window: int = 64
    patience: int = 1
    reach: int = 4
    frequency: int = 100
    max_spikes: int = 32
    report: str | Path | None = None

    def __post_init__(self) -> None:
        if not check_number("threshold", self.threshold) > 0:
            raise ValueError(f"threshold must be above 0, got {self.threshold!r}")
        _check_choice("action", self.action, ("skip", "bisect"))
        _check_choice("signal", self.signal, get_args(SpikeSignal))
        check_int("window", self.window, LEAST_FIGURES)
        check_int("patience", self.patience)
        check_int("reach", self.reach, 0)
        check_int("frequency", self.frequency)
        check_int("max_spikes", self.max_spikes)
        if self.report is not None:
            check_path("report", self.report)

    @property
    def has_gradient_norms(self) -> bool:
        """True if norms of gradients are measured."""
        return self.signal in ("gradient norm", "both")

    def figures(self, step: Step) -> dict[str, float]:
        """Return the figures of a step that are looked at, by name."""
        if callable(self.signal):
            return {"signal": self.signal(step)}
        figures = {}
        if self.signal != "gradient norm":
            figures["loss"] = step.loss / step.num_samples
        if self.has_gradient_norms and step.gradient_norm is not None:
            figures["gradient norm"] = step.gradient_norm
        return figures


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if isinstance(value, str) and value in choices:
        return
    message = f"{name} must be {', '.join(map(repr, choices))} or callable, got {value!r:.100}"
    if isinstance(value, str):
        raise ValueError(message)
    if not callable(value):
        raise ArgumentTypeError(message)
